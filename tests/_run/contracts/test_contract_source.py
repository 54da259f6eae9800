"""What `contracts`, `evidence` and `metrics` may be, and what is said when they are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from openbox_core.errors import OpenBoxConfigError

from openbox_agentrt import ContractRefusedError, create_openbox_agentrt
from openbox_agentrt.acel import EvidenceLog, Metrics, Session, at_most_n_times
from openbox_agentrt.acel.config import read_rules
from openbox_agentrt.errors import OptionError
from openbox_agentrt.evidence import EvidenceFile, read_entries, verify_file
from openbox_agentrt.local_core import LocalCore

ONCE = at_most_n_times("pay", 1)

RULES = """
contracts:
  - template: at_most_n_times
    args: [pay]
    kwargs: {n: 1}
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES, encoding="utf-8")
    return path


async def pay_twice(stage: Any, **scope: Any) -> None:
    """The second is refused by ``at_most_n_times(pay, n=1)``."""
    async with stage.governance.run_scope(**scope):
        for _ in range(2):
            async with stage.governance.activity("pay", {"amount": 1}):
                pass


def built(name: str) -> Session:
    return Session(contracts=[ONCE], session_id=name)


class Builder:
    def build(self) -> Session:
        return Session(contracts=[ONCE])


SOURCES = {
    "iterable": lambda path: [ONCE],
    "generator": lambda path: (contract for contract in [ONCE]),
    "rules file": lambda path: path,
    "rules file as text": lambda path: str(path),
    "callable": lambda path: Builder().build,
    "callable with a name": lambda path: built,
    "callable with a default": lambda path: lambda session=ONCE: Session(contracts=[session]),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
async def test_contracts_come_from(source: Any, rules: Path, make_stage: Any) -> None:
    """Each of them is in force: what breaks it is refused."""
    stage = await make_stage(contracts=source(rules))

    with pytest.raises(ContractRefusedError, match="at_most_n_times"):
        await pay_twice(stage)


async def test_a_builder_is_told_the_name_of_the_session(make_stage: Any) -> None:
    """The session id where there is one, and an id of its own where there is none."""
    names: list[str] = []

    def build(name: str) -> Session:
        names.append(name)
        return Session()

    stage = await make_stage(contracts=build)
    async with stage.governance.run_scope(session_id="s-1"):
        pass
    async with stage.governance.run_scope() as run:
        pass

    assert names == ["s-1", run.workflow_id]


async def test_the_state_of_a_rules_file_is_the_sessions(tmp_path: Path, make_stage: Any) -> None:
    """Every run begins with it."""
    path = tmp_path / "rules.yaml"
    path.write_text("state: {limit: 3}\n" + RULES, encoding="utf-8")
    stage = await make_stage(contracts=path)

    async with stage.governance.run_scope() as run:
        assert run.contracts.state["limit"] == 3


BAD: dict[str, dict[str, Any]] = {
    "a number": {"contracts": 5},
    "a list of text": {"contracts": ["must_precede(a, b)"]},
    "no such file": {"contracts": "/nonexistent/rules.yaml"},
    "a mode that is none": {"contracts_mode": "watch"},
    "a scope that is none": {"contract_scope": "agent"},
    "an on_unmet that is none": {"on_unmet": "ignore"},
    "a signer of nothing": {"signer": lambda data: "x"},
    "evidence that keeps nothing": {"evidence": object()},
    "evidence in a folder that is a file": {"evidence": "/dev/null/evidence.jsonl"},
    "metrics that count nothing": {"metrics": object()},
    "all decisions in a log of violations": {"evidence": EvidenceLog(), "record": "all"},
    "an open file of violations": {"evidence": "open", "record": "all"},
    "fields of an open file": {"evidence": "open", "redact_fields": ["pin"]},
    "a signer that is no key": {"evidence": "evidence.jsonl", "signer": 5},
}


@pytest.mark.parametrize("options", BAD.values(), ids=BAD.keys())
async def test_a_wrong_value_is_one_line_before_anything_is_sent(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the option. Core has not heard of anything."""
    monkeypatch.chdir(tmp_path)
    core = LocalCore()
    if options.get("evidence") == "open":
        options = {**options, "evidence": EvidenceFile(tmp_path / "open.jsonl")}

    with pytest.raises(OptionError) as caught:
        await create_openbox_agentrt(core=core, environ={}, install_instrumentation=False, **options)

    assert "\n" not in str(caught.value)
    assert set(options) & {caught.value.option, "evidence"}
    assert core.records() == []


@pytest.mark.parametrize("option", ["signer", "previous_signer"])
async def test_the_option_whose_key_cannot_be_used_is_named(tmp_path: Path, option: str) -> None:
    """A key so far that is not there is not made: it would vouch for nothing."""
    wrong = tmp_path / "wrong.key"
    if option == "signer":
        wrong.write_bytes(b"no key")
        wrong.chmod(0o600)
    keys: dict[str, Any] = {"signer": tmp_path / "new.key", option: wrong}

    with pytest.raises(OptionError) as caught:
        await create_openbox_agentrt(core=LocalCore(), environ={}, evidence=tmp_path / "e.jsonl", **keys)

    assert caught.value.option == option
    assert wrong.exists() is (option == "signer")


async def test_a_rules_file_that_is_wrong_is_named_with_its_line(tmp_path: Path) -> None:
    """As `validate` would."""
    path = tmp_path / "rules.yaml"
    path.write_text("contracts:\n  - template: must_preceed\n    args: [a, b]\n", encoding="utf-8")

    with pytest.raises(OptionError, match=r"rules\.yaml.*must_preceed") as caught:
        await create_openbox_agentrt(core=LocalCore(), environ={}, contracts=path)

    assert "\n" not in str(caught.value)


async def test_rules_that_cannot_bite_are_logged(
    tmp_path: Path, make_stage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever starts the run sees it, once."""
    path = tmp_path / "rules.yaml"
    path.write_text("contracts:\n  - {template: at_most_n_times, args: ['Edit|Write', 0]}\n")

    await make_stage(contracts=path)

    (said,) = [record.message for record in caplog.records if "rules.yaml" in record.message]
    assert f"{path}:2: no tool is called 'Edit|Write'" in said


async def test_evidence_is_of_the_rules(tmp_path: Path, rules: Path) -> None:
    """Also before anything is recorded, it verifies with the hash of the rules file."""
    path = tmp_path / "evidence.jsonl"
    governance = await create_openbox_agentrt(
        core=LocalCore(), environ={}, contracts=rules, evidence=path, install_instrumentation=False
    )
    await governance.aclose()

    assert verify_file(path, rules_hash=read_rules(rules).rules_hash).ok


async def test_evidence_is_let_go_when_the_start_fails(tmp_path: Path) -> None:
    """Another governance can have the file."""
    path = tmp_path / "evidence.jsonl"
    with pytest.raises(OpenBoxConfigError, match="agent_private_key"):
        await create_openbox_agentrt(core=LocalCore(), environ={}, evidence=path, agent_did="did:x")

    EvidenceFile(path).close()


@pytest.mark.parametrize("build", [lambda: object(), lambda: None], ids=["an object", "nothing"])
async def test_what_is_built_has_to_be_a_session(build: Any, make_stage: Any) -> None:
    """The run does not begin, and Core hears nothing of it."""
    stage = await make_stage(contracts=build)

    with pytest.raises(OptionError, match="Session"):
        async with stage.governance.run_scope():
            pass
    assert stage.events() == []


async def test_a_session_that_has_ended_is_no_new_one(make_stage: Any) -> None:
    """A builder that always gives the same session is told so, instead of refusing everything."""
    session = Session()
    stage = await make_stage(contracts=lambda: session)
    async with stage.governance.run_scope():
        pass

    with pytest.raises(OptionError, match="has ended"):
        async with stage.governance.run_scope():
            pass


async def test_an_error_of_the_builder_is_its_own(make_stage: Any) -> None:
    """It is raised where the run would have begun, with nothing to be closed."""

    def build() -> Session:
        raise LookupError("no rules for this tenant")

    stage = await make_stage(contracts=build)

    with pytest.raises(LookupError):
        async with stage.governance.run_scope():
            pass
    assert stage.events() == []


async def test_shadow_refuses_nothing_and_records_everything(make_stage: Any) -> None:
    """The decision says that it would have been refused."""
    log = EvidenceLog()
    stage = await make_stage(contracts=[ONCE], contracts_mode="shadow", evidence=log)

    await pay_twice(stage)

    assert [bundle.violation["spec"] for bundle in log.bundles] == [ONCE.spec]
    assert stage.story()[-1] == "WorkflowCompleted completed"


async def test_shadow_is_not_taken_for_granted_of_a_built_session(make_stage: Any) -> None:
    """A session that would refuse is not let in where the option says that nothing is."""
    stage = await make_stage(contracts=Builder().build, contracts_mode="shadow")

    with pytest.raises(OptionError, match="shadow"):
        async with stage.governance.run_scope():
            pass


async def test_a_built_session_in_shadow_stays_so(make_stage: Any) -> None:
    """Whatever the option's default is."""
    stage = await make_stage(contracts=lambda: Session(mode="shadow", contracts=[ONCE]))

    await pay_twice(stage)


async def test_violations_of_a_built_session_are_in_the_evidence_of_the_governance(
    make_stage: Any, tmp_path: Path
) -> None:
    """Once each, and in the session's own log as well."""
    own = EvidenceLog()
    path = tmp_path / "evidence.jsonl"
    stage = await make_stage(contracts=lambda: Session(contracts=[ONCE], evidence=own), evidence=path)
    with pytest.raises(ContractRefusedError):
        await pay_twice(stage)
    await stage.governance.aclose()

    assert len([entry for entry in read_entries(path) if entry.type == "violation"]) == 1
    assert len(own.bundles) == 1


async def test_a_log_that_both_have_gets_each_violation_once(make_stage: Any) -> None:
    """The session's own log, given to the governance too."""
    log = EvidenceLog()
    stage = await make_stage(contracts=lambda: Session(contracts=[ONCE], evidence=log), evidence=log)

    with pytest.raises(ContractRefusedError):
        await pay_twice(stage)

    assert len(log.bundles) == 1


async def test_an_open_file_names_the_session_of_each_record(make_stage: Any, tmp_path: Path) -> None:
    """As one that the governance opens would; it is not closed with the governance."""
    with EvidenceFile(tmp_path / "evidence.jsonl", record="all") as file:
        stage = await make_stage(contracts=[ONCE], evidence=file, record="all")
        with pytest.raises(ContractRefusedError):
            await pay_twice(stage, session_id="s-1")
        await stage.governance.aclose()
        file.record_decision({"after": "the governance"})

    entries = list(read_entries(file.path))
    assert {entry.session_id for entry in entries if entry.type == "violation"} == {"s-1"}
    assert [entry.session_id for entry in entries if entry.type == "decision"] == ["s-1", "s-1", None]


async def test_a_file_that_both_have_gets_each_violation_once(make_stage: Any, tmp_path: Path) -> None:
    """Even if the session sees it under its own name."""
    with EvidenceFile(tmp_path / "evidence.jsonl") as file:
        stage = await make_stage(
            contracts=lambda name: Session(contracts=[ONCE], evidence=file.for_session(name)), evidence=file
        )
        with pytest.raises(ContractRefusedError):
            await pay_twice(stage)

    assert [entry.type for entry in read_entries(file.path)].count("violation") == 1


async def test_violations_of_a_built_session_are_counted(make_stage: Any) -> None:
    """By the metrics of the governance, unless the session has its own."""
    metrics, own = Metrics(), Metrics()
    stage = await make_stage(
        contracts=lambda name: Session(contracts=[ONCE], metrics=own if name == "own" else None),
        metrics=metrics,
    )
    for session_id in ("own", "other"):
        with pytest.raises(ContractRefusedError):
            await pay_twice(stage, session_id=session_id)

    counted = {ONCE.spec: 1}
    assert metrics.snapshot()["violations_by_contract"] == counted
    assert own.snapshot()["violations_by_contract"] == counted


async def test_evidence_that_fails_changes_no_decision(make_stage: Any) -> None:
    """Not for a refusal, and not for what is only watched."""

    class Broken:
        def record(self, violation: Any) -> None:
            raise OSError("disk full")

        def record_decision(self, decision: Any) -> None:
            raise OSError("disk full")

    stage = await make_stage(contracts=Builder().build, evidence=Broken(), record="all")

    with pytest.raises(ContractRefusedError):
        await pay_twice(stage)


async def test_named_fields_are_hidden_from_a_log_of_ones_own(make_stage: Any) -> None:
    """`redact_fields` holds for every kind of evidence: arguments, state, trace and result."""
    log = EvidenceLog()
    stage = await make_stage(contracts=[at_most_n_times("log_in", 1)], evidence=log, redact_fields=["pin"])

    async with stage.governance.run_scope():
        async with stage.governance.activity("log_in", {"pin": "z-4711-z"}) as activity:
            activity.output = {"pin": "z-4711-z"}
        with pytest.raises(ContractRefusedError):
            async with stage.governance.activity("log_in", {"pin": "z-4711-z"}):
                pass

    assert "z-4711-z" not in repr([bundle.violation for bundle in log.bundles])
    assert len(log.bundles) == 1


async def test_metrics_of_acel_core_are_enough(make_stage: Any) -> None:
    """They know calls and violations, and nothing of decisions."""

    class Older:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def record_call(self) -> None:
            self.seen.append("call")

        def record_violation(self, kind: str, contract_spec: str | None = None) -> None:
            self.seen.append(contract_spec)

        def record_gate_latency(self, seconds: float) -> None:
            pass

    metrics = Older()
    stage = await make_stage(contracts=[ONCE], metrics=metrics)

    with pytest.raises(ContractRefusedError):
        await pay_twice(stage)

    assert ONCE.spec in metrics.seen
