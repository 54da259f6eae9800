"""What the demo prints while it happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from ..decision import Decision
    from ..local_core import Approval, LocalCore
    from .scenes import Scene

_WIDTH = 12


class Narrator:
    """
    Print a readable account of the runs, line by line.

    Attributes:
        verdicts: How often each verdict was the effective one.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.verdicts: Counter[str] = Counter()

    def scene(self, number: int, scene: Scene) -> None:
        self.console.print(f"\n[bold]{number}. {escape(scene.title)}[/bold]")
        self._line("customer", f"[italic]{escape(scene.prompt)}[/italic]")

    def decision(self, decision: Decision) -> None:
        """Tell the outcome of one gate. Given to a governance as ``on_decision``."""
        self.verdicts[decision.verdict.value] += 1
        self._line("gate", f"{escape(decision.event):<12} {_outcome(decision)}")

    def model(self, text: str) -> None:
        self._line("model", escape(text))

    def tool_call(self, name: str, arguments: Mapping[str, Any]) -> None:
        given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        self._line("model", f"asks for [cyan]{escape(f'{name}({given})')}[/cyan]")

    def approval(self, approval: Approval, answer: str) -> None:
        self._line("person", f"{escape(approval.reason)}: [green]{answer}[/green]")

    def refused_run(self, message: str) -> None:
        self._line("run", f"[red]stopped[/red]: {escape(message)}")

    def summary(self, core: LocalCore) -> None:
        """Tell which events Core has, and which verdicts were in effect."""
        events = Counter(
            event["event_type"] if not event.get("hook_trigger") else "hook" for event in core.events()
        )
        self.console.print("\n[bold]What Core has[/bold]")
        self._line("events", ", ".join(f"{count} {name}" for name, count in events.items()))
        self._line("verdicts", ", ".join(f"{count} {name}" for name, count in self.verdicts.most_common()))
        self._line("open", f"{len(core.orphans())} activities, {len(core.open_workflows())} runs")

    def _line(self, who: str, what: str) -> None:
        self.console.print(f"  [dim]{who:<{_WIDTH}}[/dim]{what}", highlight=False, soft_wrap=True)


def _outcome(decision: Decision) -> str:
    verdict = decision.verdict.value
    if verdict in ("block", "halt"):
        by = "local contracts" if decision.source == "contracts" else decision.source
        return f"[red]{verdict}[/red] by {by}: {escape(decision.reason or 'no reason given')}"
    notes = []
    if decision.redacted:
        notes.append("redacted")
    if decision.approval is not None:
        notes.append(f"{decision.approval} by a person")
    if decision.unreachable:
        notes.append("Core was unreachable")
    after = f" [yellow]({', '.join(notes)})[/yellow]" if notes else ""
    return f"[green]{'allow' if verdict == 'require_approval' else verdict}[/green]{after}"
