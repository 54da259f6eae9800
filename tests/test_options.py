"""Options: arguments, then the environment, then defaults."""

from __future__ import annotations

import dataclasses
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openbox_core.config import OpenBoxConfig
from openbox_core.errors import OpenBoxAuthError, OpenBoxConfigError, OpenBoxInsecureURLError

from openbox_agentrt.errors import OptionError
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.options import OPTIONS, GovernanceOptions

URL = "https://core.example"
KEY = "obx_test_abc123"
NEEDED = {"OPENBOX_API_URL": URL, "OPENBOX_API_KEY": KEY}


def resolve(environ: dict[str, str] | None = None, **explicit: Any) -> GovernanceOptions:
    return GovernanceOptions.resolve(environ={**NEEDED, **(environ or {})}, **explicit)


def test_every_option_has_a_kind() -> None:
    """An option that is added to the class without a check would take anything."""
    assert len(OPTIONS) >= 55
    assert {field.name for field in dataclasses.fields(GovernanceOptions)} == set(OPTIONS)


def test_every_group_refuses_what_contradicts_itself() -> None:
    """A group with a `check` that nobody calls would let it pass."""
    groups = [base for base in GovernanceOptions.__mro__[1:] if "_check" in vars(base)]

    assert groups, "found no group with a check: this test would pass without checking anything"
    for group in groups:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(group, "_check", lambda self: (_ for _ in ()).throw(LookupError("asked")))
            with pytest.raises(LookupError, match="asked"):
                GovernanceOptions(core="local")


def test_every_option_of_openbox_core_is_forwarded() -> None:
    """An identity option that openbox_core adds later fails here, not silently in production."""
    ours = {
        "on_fallback", "sdk_version", "sdk_engine", "sdk_language", "env_prefix",
        "hitl", "telemetry", "instrumentation", "gate", "privacy", "metadata",
    }  # fmt: skip
    theirs = {field.name for field in dataclasses.fields(OpenBoxConfig)}

    assert theirs - ours == {name for name, declared in OPTIONS.items() if declared.is_base}


def test_an_argument_comes_before_the_environment() -> None:
    """Explicit argument, own prefix, general prefix, default: in this order."""
    environ = {"OPENBOX_AGENTRT_AGENT_NAME": "own", "OPENBOX_AGENT_NAME": "general"}

    assert resolve(environ, agent_name="argument").agent_name == "argument"
    assert resolve(environ).agent_name == "own"
    assert resolve({"OPENBOX_AGENT_NAME": "general"}).agent_name == "general"
    assert resolve().agent_name is None


@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
def test_a_blank_variable_is_not_set(blank: str) -> None:
    """A blank own variable does not hide the general one."""
    environ = {"OPENBOX_AGENTRT_AGENT_NAME": blank, "OPENBOX_AGENT_NAME": "general"}

    assert resolve(environ).agent_name == "general"


def test_none_as_an_argument_means_not_given() -> None:
    """`agent_name=os.environ.get(...)` does not hide the environment."""
    assert resolve({"OPENBOX_AGENT_NAME": "general"}, agent_name=None).agent_name == "general"


def test_no_limit_for_approvals_is_an_explicit_choice() -> None:
    """None is a value only where it means something."""
    assert resolve().approval_max_wait_ms == 3_600_000
    assert resolve(approval_max_wait_ms=None).approval_max_wait_ms is None
    assert resolve({"OPENBOX_APPROVAL_MAX_WAIT_MS": "none"}).approval_max_wait_ms is None


@pytest.mark.parametrize("variable", ["OPENBOX_AGENTRT_API_URL", "OPENBOX_AGENTRT_URL", "OPENBOX_URL"])
def test_the_url_has_the_names_that_the_siblings_use(variable: str) -> None:
    """`OPENBOX_URL` is read as well as `OPENBOX_API_URL`."""
    options = GovernanceOptions.resolve(environ={variable: URL, "OPENBOX_API_KEY": KEY})

    assert options.api_url == URL


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", True),
        ("true", True),
        ("YES", True),
        ("on", True),
        ("0", False),
        ("False", False),
        ("off", False),
    ],
)
def test_a_flag_is_read_from_the_environment(text: str, value: bool) -> None:
    """Words for yes and no, in any case."""
    assert resolve({"OPENBOX_AGENTRT_VALIDATE": text}).validate is value


def test_names_mappings_and_numbers_are_read_from_the_environment() -> None:
    """Lists are separated by commas, mappings are JSON."""
    options = resolve(
        {
            "OPENBOX_AGENTRT_SKIP_TOOLS": "search, tool_search ,",
            "OPENBOX_AGENTRT_TOOL_TYPE_MAP": '{"refund": "payment"}',
            "OPENBOX_AGENTRT_TIMEOUT_SECONDS": "2.5",
            "OPENBOX_AGENTRT_APPROVAL_POLL_INTERVAL_MS": "250",
        }
    )

    assert options.skip_tools == ("search", "tool_search")
    assert options.tool_type_map == {"refund": "payment"}
    assert options.timeout_seconds == 2.5
    assert options.approval_poll_interval_ms == 250


def test_one_name_given_as_text_is_one_name() -> None:
    """`skip_tools="search"` does not skip the tools s, e, a, r, c and h."""
    assert resolve(skip_tools="search").skip_tools == ("search",)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown option": (
        {"on_api_eror": "fail_open"},
        "'on_api_eror' is not known; did you mean 'on_api_error'",
    ),
    "unknown word": ({"on_api_error": "fail-closed"}, "did you mean 'fail_closed'"),
    "unknown verdict allows nothing": ({"on_unknown_verdict": "allow"}, "must be 'block' or 'halt'"),
    "text for a flag": ({"validate": "yes"}, "must be True or False, not 'yes'"),
    "number for a flag": ({"validate": 1}, "must be True or False, not 1"),
    "flag for a number": ({"approval_poll_interval_ms": True}, "must be a whole number"),
    "zero interval": ({"approval_poll_interval_ms": 0}, "must be 1 or more"),
    "zero timeout": ({"timeout_seconds": 0}, "above 0"),
    "negative timeout": ({"timeout_seconds": -1}, "above 0"),
    "nan timeout": ({"timeout_seconds": math.nan}, "finite"),
    "endless timeout": ({"timeout_seconds": math.inf}, "finite"),
    "text timeout": ({"timeout_seconds": "30"}, "must be a number of seconds"),
    "blank name": ({"agent_name": " "}, "must not be blank"),
    "name with a line break": ({"agent_name": "a\nb"}, "control characters"),
    "number for text": ({"session_id": 3}, "must be text, not int"),
    "no mapping": ({"tool_type_map": ["refund"]}, "must map names to text"),
    "mapping of numbers": ({"tool_type_map": {"refund": 1}}, "must map names to text"),
    "handlers as a list": ({"constraint_handlers": [print]}, "must map names to callables"),
    "a secret that is none": ({"agent_private_key": " "}, "must be text and not blank"),
    "handlers that cannot be called": ({"constraint_handlers": {"run_in_sandbox": 1}}, "to callables"),
    "observer that cannot be called": ({"on_decision": "print"}, "must be callable"),
    "names that are none": ({"skip_tools": [1]}, "must hold names"),
    "names as a number": ({"skip_tools": 5}, "must be a collection of names"),
    "a class of cores": ({"core": LocalCore}, "must be 'local', 'off' or a LocalCore"),
    "a record that goes nowhere": (
        {"record": "steps"},
        "is 'steps', and no evidence is kept; set the option",
    ),
    "core by another name": ({"core": "lokal"}, "must be 'local', 'off' or a LocalCore"),
    "nobody who judges": ({"core": "off"}, "without contracts nothing would be judged"),
    "a key that signs nothing": ({"signer": "key.pem"}, "set the option 'evidence' as well"),
    "two cores": ({"core": "local", "runtime": object()}, "cannot be combined"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_option_is_named_in_one_line(name: str) -> None:
    """The message says which option, what is wrong and what was meant."""
    explicit, expected = WRONG[name]

    with pytest.raises(OptionError) as caught:
        resolve(**explicit)

    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.option in explicit


WRONG_VARIABLES = {
    "OPENBOX_AGENTRT_VALIDATE": "maybe",
    "OPENBOX_AGENTRT_TIMEOUT_SECONDS": "soon",
    "OPENBOX_AGENTRT_APPROVAL_POLL_INTERVAL_MS": "1.5",
    "OPENBOX_AGENTRT_ON_API_ERROR": "open",
    "OPENBOX_AGENTRT_TOOL_TYPE_MAP": "refund=payment",
    "OPENBOX_AGENTRT_ON_DECISION": "print",
    "OPENBOX_TIMEOUT_SECONDS": "nan",
}


@pytest.mark.parametrize("variable", WRONG_VARIABLES)
def test_a_wrong_variable_is_named(variable: str) -> None:
    """The message says which variable a value came from."""
    with pytest.raises(OptionError, match=variable):
        resolve({variable: WRONG_VARIABLES[variable]})


def test_a_misspelt_own_variable_is_an_error() -> None:
    """It would silently leave a default such as fail_open in force."""
    with pytest.raises(OptionError, match="did you mean 'OPENBOX_AGENTRT_ON_API_ERROR'"):
        resolve({"OPENBOX_AGENTRT_ON_API_EROR": "fail_closed"})


def test_variables_of_other_products_are_left_alone() -> None:
    """Only the own prefix is checked for unknown names, and objects have no general variable."""
    assert resolve({"OPENBOX_LANGCHAIN_API_KEY": "x", "OPENBOX_ON_DECISION": "x"}).on_decision is None


def test_a_local_core_is_not_chosen_by_a_general_variable() -> None:
    """A process that talks to a real Core does not lose it to a variable of something else."""
    assert resolve({"OPENBOX_CORE": "local"}).core is None
    assert resolve({"OPENBOX_AGENTRT_CORE": "local"}).core == "local"


@pytest.mark.parametrize("missing", ["api_url", "api_key"])
def test_a_missing_address_or_key_is_named(missing: str) -> None:
    """Both are required for a remote Core, and the remedy says how to give them."""
    environ = {"OPENBOX_API_URL": URL, "OPENBOX_API_KEY": KEY}
    del environ[f"OPENBOX_{missing.upper()}"]

    with pytest.raises(OptionError, match=f"option '{missing}' is required") as caught:
        GovernanceOptions.resolve(environ=environ)

    assert str(caught.value).endswith(f"; {caught.value.remedy}")


@pytest.mark.parametrize("given", [{"core": "local"}, {"runtime": object()}])
def test_neither_is_required_for_another_core(given: dict[str, Any]) -> None:
    """A local Core and an injected runtime have an address and a key of their own."""
    assert GovernanceOptions.resolve(environ={}, **given).api_url is None


@pytest.mark.parametrize(
    "url",
    [
        "core.example",
        "ftp://core.example",
        "https://",
        "https://core.example:port",
        "https://[::1",
        "https://core.example?x=1",
        "https://core.example#x",
        " https://core.example",
        "https://core.example\n",
    ],
)
def test_a_url_that_is_none_is_refused(url: str) -> None:
    """Before any network call, and with the option's name."""
    with pytest.raises(OptionError, match="'api_url'"):
        resolve(api_url=url)


@pytest.mark.parametrize("url", ["https://me:hunter2@core.example", "me:hunter2@core.example"])
def test_a_password_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    """Secrets do not get into messages or attributes."""
    with pytest.raises(OptionError) as caught:
        resolve(api_url=url)

    assert "hunter2" not in f"{caught.value} {caught.value.__dict__}"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_plain_http_is_for_this_machine(host: str) -> None:
    """A Core on the loopback needs no certificate."""
    assert resolve(api_url=f"http://{host}:8086/").api_url == f"http://{host}:8086"


@pytest.mark.parametrize(
    "host", ["core.example", "10.0.0.5", "host.docker.internal", "localhost.evil.example"]
)
def test_plain_http_to_another_machine_is_refused(host: str) -> None:
    """The key would travel in the clear."""
    with pytest.raises(OpenBoxInsecureURLError, match="must use https"):
        resolve(api_url=f"http://{host}")


@pytest.mark.parametrize(
    "key",
    ["", "secret", "obx_live_", "obx_prod_abc", f"{KEY}\n", f" {KEY}", "obx_test_a b", "obx_test_\u00e4"],
)
def test_a_key_of_another_form_is_refused_and_not_repeated(key: str) -> None:
    """Also one with a line break behind it, which openbox_core lets through into a header."""
    with pytest.raises(OpenBoxAuthError) as caught:
        resolve(api_key=key)

    text = f"{caught.value} {caught.value.__dict__}"
    assert len(key.strip()) < 4 or key.strip() not in text.replace("'obx_live_...'", "")


def test_no_secret_is_in_a_repr() -> None:
    """Neither the options nor the configuration of openbox_core show one when logged."""
    options = resolve(
        agent_private_key="hunter2a", workload_private_key="hunter2b", okta_agent_private_key="hunter2c",
        signer="hunter2d", evidence="evidence.jsonl",
    )  # fmt: skip

    assert KEY not in repr(options)
    assert "hunter2" not in repr(options)
    assert KEY not in repr(resolve().to_config())


def test_the_configuration_of_openbox_core_is_resolved_from_the_options() -> None:
    """Identification, approvals and instrumentation arrive where openbox_core looks for them."""
    config = resolve(
        agent_name="Refunds", on_api_error="fail_closed", timeout_seconds=3, approval_poll_interval_ms=7,
        approval_max_wait_ms=None, instrument_files=False,
    ).to_config()  # fmt: skip

    assert (config.sdk_engine, config.sdk_language, config.env_prefix) == (
        "agentrt",
        "python",
        "OPENBOX_AGENTRT",
    )
    assert (config.api_url, config.api_key, config.agent_name) == (URL, KEY, "Refunds")
    assert (config.on_api_error, config.timeout_seconds) == ("fail_closed", 3.0)
    assert (config.hitl.poll_interval_ms, config.hitl.max_wait_ms) == (7, None)
    assert (config.instrumentation.enabled, config.instrumentation.file_enabled) == (True, False)


def test_identities_that_exclude_each_other_are_refused() -> None:
    """What openbox_core says about identities is passed on."""
    with pytest.raises(OpenBoxConfigError, match="mutually exclusive"):
        resolve(agent_did="did:aip:x", okta_agent_id="y").to_config()


def test_the_budget_of_a_gate_is_the_timeout_unless_it_is_given() -> None:
    """One question may take as long as one request, retries included."""
    assert resolve(timeout_seconds=7).gate_budget == 7.0
    assert resolve(timeout_seconds=7, gate_budget_seconds=2).gate_budget == 2.0


def test_options_are_checked_without_the_environment_too() -> None:
    """Building them directly is no way around the checks."""
    with pytest.raises(OptionError, match="'timeout_seconds'"):
        GovernanceOptions(timeout_seconds=math.nan)


def test_the_environment_of_the_process_is_read_when_resolving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not on import."""
    for name in [name for name in os.environ if name.startswith("OPENBOX_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OPENBOX_URL", URL)
    monkeypatch.setenv("OPENBOX_AGENTRT_API_KEY", KEY)

    assert GovernanceOptions.resolve().api_url == URL


def test_importing_the_options_loads_nothing_heavy(tmp_path: Path) -> None:
    """Neither Agent-RT nor an HTTP client is loaded to say what can be configured."""
    code = (
        "import sys, openbox_agentrt.options, openbox_agentrt.errors\n"
        "heavy = {'agent_rt', 'httpx', 'cryptography', 'opentelemetry', 'yaml', 'msgspec', 'typer', 'mcp'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )

    assert done.stdout.strip() == "[]"


def test_the_variable_of_the_command_line_is_known() -> None:
    """It makes its errors visible, and is no option."""
    assert GovernanceOptions.resolve(environ={"OPENBOX_AGENTRT_DEBUG": "1"}, core="local").core == "local"


@pytest.mark.parametrize(
    ("variable", "meant"),
    [("OPENBOX_API_KYE", "OPENBOX_API_KEY"), ("OPENBOX_ON_API_EROR", "OPENBOX_ON_API_ERROR")],
)
def test_a_misspelt_variable_is_said(variable: str, meant: str, caplog: pytest.LogCaptureFixture) -> None:
    """A key that nobody reads is no key."""
    GovernanceOptions.resolve(environ={variable: "x"}, core="local")

    assert f"variable {variable} is not known; did you mean {meant}" in caplog.text


def test_a_variable_of_another_sdk_is_not_ours_to_judge(caplog: pytest.LogCaptureFixture) -> None:
    """Nor is one that is spelt right, or empty."""
    GovernanceOptions.resolve(
        environ={"OPENBOX_TEMPORAL_QUEUE": "x", "OPENBOX_AGENT_NAME": "A", "OPENBOX_API_KYE": " "},
        core="local",
    )

    assert caplog.text == ""
