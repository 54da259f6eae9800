"""Print what happens in the demo, while it happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

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
        self._line("model", f"asks for [cyan]{escape(_call(name, arguments))}[/cyan]")

    def seen(self, text: str) -> None:
        """Tell what the model is given instead of what was written."""
        self._line("model sees", f"[italic]{escape(text)}[/italic]")

    def waits(self, approval: Approval) -> None:
        """Tell who is asked, and about what. Given to a local Core as ``on_approval``."""
        given = approval.event.get("activity_input", [{}])[0]
        self._line("waits", f"for a person: {escape(_call(approval.activity_type, given))}")
        self._line("", f"because {escape(approval.reason)}")

    def approval(self, approval: Approval) -> None:
        colour = "green" if approval.state == "approved" else "red"
        said = f" ({escape(approval.note)})" if approval.note else ""
        self._line("person", f"{escape(approval.decided_by)}: [{colour}]{approval.state}[/{colour}]{said}")

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
        # A long line goes on under where it began, and not at the edge of the terminal.
        table = Table.grid(padding=0)
        table.add_column(width=_WIDTH, no_wrap=True)
        table.add_column(overflow="fold")
        table.add_row(f"[dim]{who}[/dim]", what)
        self.console.print(Padding(table, (0, 0, 0, 2), expand=False), highlight=False)


def _call(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


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
