"""What a process that ends at once hides: the same, for less."""

import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbox_agentrt.evidence.redaction.brief_redaction import brief_redactor_of
from openbox_agentrt.evidence.redaction.known_secrets import _KEYS, KEY_FORMS, SECRET_PATTERNS
from openbox_agentrt.evidence.redaction.redactor import redactor_of
from openbox_agentrt.evidence.redaction.secret_words import SECRET_WORDS, folded, may_find

KEY = b"k" * 32
WHOLE = redactor_of(()).keyed(KEY)

WORDS_OF = dict(zip(SECRET_PATTERNS, SECRET_WORDS, strict=True))
OF_KEYS = next(pattern for pattern in SECRET_PATTERNS if KEY_FORMS in pattern)
FORMS = [(pattern, pattern) for pattern in SECRET_PATTERNS if pattern != OF_KEYS]
FORMS += [(rf"\b(?:{form})", OF_KEYS) for form in _KEYS]


@pytest.mark.parametrize(("form", "pattern"), FORMS, ids=[form[:40] for form, _ in FORMS])
def test_what_a_pattern_finds_has_its_words(form: str, pattern: str) -> None:
    """Else it would not be searched for."""
    python = re.compile(form.replace(r"\z", r"\Z"))

    @settings(max_examples=8, deadline=None, database=None)
    @given(st.from_regex(python))
    def check(text: str) -> None:
        assert may_find(WORDS_OF[pattern], folded(text)), text

    check()


@pytest.mark.parametrize(
    "text",
    [
        "ls -l /home/ann/project/src/module/tasks.py",
        "git push origin main --force-with-lease",
        "123e4567-e89b-12d3-a456-426614174000",
        "at_most_n_times(Deploy, n=3): 0 left of 3",
        "call to 'Bash' refused at step 1, it would break must_precede(Test, Bash): no 'Test' yet",
        '{"file_path": "/tmp/x", "description": "List files", "command": "rm -rf build"}',
        "tool: a value",
        "file_path=a value",
    ],
)
def test_usual_texts_are_not_searched(text: str) -> None:
    """To search one, patterns have to be compiled first."""
    assert not any(may_find(groups, folded(text)) for groups in SECRET_WORDS)


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdefgh1234",
        "curl -u ann:hunter22 https://x.example and AKIAIOSFODNN7EXAMPLE",
        "the to\u212aen is Tr0ub4dor, pa\u017f\u017fword=1234",
        "postgres://ann:hunter22@db/x --password 1234",
        "nothing at all",
        "ghp_0123456789abcdefghijABCDEFGHIJ012345 sk-ant-0123456789abcdef0123",
    ],
)
def test_the_same_is_hidden(text: str) -> None:
    """In text, under names and in the words of a command."""
    brief = brief_redactor_of(()).keyed(KEY)
    value = {"text": text, "argv": text.split(), "password": text, "name": "x-api-key", "value": text}

    assert brief.redact(value) == WHOLE.redact(value)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(SECRET_PATTERNS).flatmap(lambda form: st.from_regex(form.replace(r"\z", r"\Z"))))
def test_any_secret_is_hidden_alike(text: str) -> None:
    """Whatever pattern finds it."""
    assert brief_redactor_of(()).keyed(KEY).redact_text(text) == WHOLE.redact_text(text)


def test_nothing_is_compiled_for_a_text_without_words() -> None:
    """The library that searches is not even loaded."""
    code = (
        "import sys\n"
        "from openbox_agentrt.evidence.redaction.brief_redaction import brief_redactor_of\n"
        "redactor = brief_redactor_of(())\n"
        "redactor.redact({'command': 'ls', 'path': '/tmp/x'})\n"
        "print('re2' in sys.modules)\n"
        "redactor.redact({'command': 'curl -u ann:hunter22 x.example'})\n"
        "print('re2' in sys.modules)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False", "True"]
