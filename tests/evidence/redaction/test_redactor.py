"""Secrets, kept out of everything that leaves the process."""

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pydantic
import pytest
from acel.evidence import redact_violation as published
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt._plain.codec import Marked
from openbox_agentrt._wire.error_info import scrub
from openbox_agentrt.evidence import (
    SECRET_PATTERNS,
    EvidenceFile,
    Redactor,
    ed25519_signer,
    read_entries,
    redact_violation,
)
from openbox_agentrt.evidence.redaction.markers import redaction_marker
from openbox_agentrt.evidence.redaction.redacted_records import redact_record

KEY = b"k" * 32
SECRET = "hunter2"
MARKER = redaction_marker(SECRET, KEY)


@dataclass
class Login:
    user: str
    password: str


class Credentials(pydantic.BaseModel):
    password: str


def redactor(*names: str, **options: Any) -> Redactor:
    return Redactor(names or ("password",), key=KEY, **options)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"password": SECRET, "user": "ann"}, {"password": MARKER, "user": "ann"}, id="key"),
        pytest.param({"PassWord": SECRET}, {"PassWord": MARKER}, id="case"),
        pytest.param({"ｐａｓｓｗｏｒｄ": SECRET}, {"ｐａｓｓｗｏｒｄ": MARKER}, id="full-width letters"),
        pytest.param({"a": [{"b": {"password": SECRET}}]}, {"a": [{"b": {"password": MARKER}}]}, id="nested"),
        pytest.param({"a": ({"password": SECRET},)}, {"a": [{"password": MARKER}]}, id="in a tuple"),
        pytest.param(Login("ann", SECRET), {"user": "ann", "password": MARKER}, id="dataclass"),
        pytest.param(Credentials(password=SECRET), {"password": MARKER}, id="pydantic model"),
        pytest.param(
            {"password": SECRET, (1,): 2},
            {"$mapping": [["password", MARKER], [[1], 2]]},
            id="mapping with keys that are no text",
        ),
        pytest.param(
            json.dumps({"password": SECRET, "n": 1}),
            json.dumps({"password": MARKER, "n": 1}, separators=(",", ":")),
            id="json in text",
        ),
        pytest.param(
            json.dumps(json.dumps([{"password": SECRET}])),
            json.dumps(json.dumps([{"password": MARKER}], separators=(",", ":"))),
            id="json in json in text",
        ),
        pytest.param(
            '{"pass\\u0077ord": "hunter2"}',
            json.dumps({"password": MARKER}, separators=(",", ":")),
            id="escaped key in json",
        ),
        pytest.param(
            '{"n": 1, "list": [ 2 ]}', '{"n": 1, "list": [ 2 ]}', id="json without a secret stays as it is"
        ),
        pytest.param("user=ann&password=hunter2&n=1", f"user=ann&password={MARKER}&n=1", id="query"),
        pytest.param("password = hunter2, ok", f"password = {MARKER}, ok", id="assignment"),
        pytest.param(
            "Login(user='ann', password='hunter2')", f"Login(user='ann', password='{MARKER}')", id="repr"
        ),
        pytest.param('cut {"password": "hunter2", "n', f'cut {{"password": "{MARKER}", "n', id="cut json"),
        pytest.param(
            r"cut \"password\": \"hunter2\", \"n",
            rf"cut \"password\": \"{MARKER}\", \"n",
            id="cut escaped json",
        ),
        pytest.param("password: hunter2\nnext: 1", f"password: {MARKER}\nnext: 1", id="header"),
        pytest.param('password: "hunter2', f'password: "{MARKER}"', id="quote that is not closed"),
        pytest.param("the password was wrong", "the password was wrong", id="the name alone"),
        pytest.param("password=", "password=", id="no value"),
        pytest.param("mypassword=hunter2", "mypassword=hunter2", id="another name"),
        pytest.param({"passwords": SECRET}, {"passwords": SECRET}, id="exact names only"),
        pytest.param({"password=hunter2": 1}, {f"password={MARKER}": 1}, id="secret in a key"),
        pytest.param(5, 5, id="number"),
    ],
)
def test_redact(value: object, expected: object) -> None:
    """The value under a name is hidden wherever the name stands, and nothing else is."""
    assert redactor().redact(value) == expected


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        pytest.param('see "password": {"a": {"b": 1}}, "n": 2', '{"a": {"b": 1}}', id="an object"),
        pytest.param("password=[1, 2] n=2", "[1, 2]", id="a list"),
        pytest.param("password: (1, 2", "(1, 2", id="brackets that are not closed"),
        pytest.param("password: Basic abc def", "Basic abc def", id="the rest of the line"),
    ],
)
def test_the_whole_value_is_hidden(text: str, hidden: str) -> None:
    """What belongs to the value goes with it, as far as it can be told."""
    assert redactor().redact_text(text) == text.replace(hidden, redaction_marker(hidden, KEY))


@pytest.mark.parametrize(
    ("glob", "name", "hides"),
    [
        ("*password*", "old_password_2", True),
        ("*password*", "PASSWORD", True),
        ("*password*", "pass", False),
        ("api?key", "api-key", True),
        ("api?key", "apikey", False),
        ("k[0-9]", "k5", True),
        ("k[0-9]", "kx", False),
    ],
)
def test_globs(glob: str, name: str, hides: bool) -> None:
    """A name with a wildcard stands for many."""
    assert redactor(glob).hides(name) is hides


def test_one_name_as_text_is_one_name() -> None:
    """`redact_fields="token"` hides the token, not everything called t, o, k, e or n."""
    assert Redactor("token", key=KEY).redact({"token": 1, "t": 2}) == {
        "token": redaction_marker("1", KEY),
        "t": 2,
    }


def test_patterns_hide_values_wherever_they_stand() -> None:
    """A value that looks like a secret is hidden, under whatever name."""
    hiding = Redactor(patterns=[r"sk-[a-z0-9]+", re.compile("S[0-9]")], key=KEY)

    assert hiding.redact({"note": "use sk-abc1 or S5", "n": 1}) == {
        "note": f"use {redaction_marker('sk-abc1', KEY)} or {redaction_marker('S5', KEY)}",
        "n": 1,
    }


@pytest.mark.parametrize(
    "secret",
    [
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
        "Bearer abcdefgh.ijkl",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
        "AKIAABCDEFGHIJKLMNOP",
        "obx_live_abcdef123456",
        "sk-abcdefghijklmnopqrstu",
        "ghp_abcdefghijklmnopqrst",
    ],
)
def test_the_patterns_that_come_with_it(secret: str) -> None:
    """Common secrets are known."""
    hidden = Redactor(patterns=SECRET_PATTERNS, key=KEY).redact_text(f"here: {secret} there")

    assert hidden == f"here: {redaction_marker(secret, KEY)} there"


A = "a1B2c3D4"
KEYS = {
    "Amazon, temporary": "ASIAABCDEFGHIJKLMNOP",
    "Google": "AIzaSyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
    "Google, client": f"GOCSPX-{A * 4}",
    "DigitalOcean": f"dop_v1_{'a1b2c3d4' * 8}",
    "Vault": f"hvs.{A * 4}",
    "Databricks": f"dapi{'a1b2c3d4' * 4}",
    "GitHub, fine-grained": f"github_pat_11ABCDEFG0abcdefghijkl_{A * 7}",
    "GitHub, refresh": f"ghr_{A * 5}",
    "GitLab": f"glpat-{A * 3}",
    "npm": f"npm_{A * 5}",
    "PyPI": f"pypi-AgEIcHlwaS5vcmc{A * 8}",
    "Docker": f"dckr_pat_{A * 4}",
    "OpenAI, project": f"sk-proj-{A * 3}_{A * 3}",
    "Anthropic": f"sk-ant-api03-{A * 10}",
    "Hugging Face": f"hf_{A * 5}",
    "Groq": f"gsk_{A * 6}",
    "Slack, bot": f"xoxb-123456789012-1234567890123-{A * 3}",
    "Slack, refresh": f"xoxe-1-{A * 5}",
    "Slack, app": f"xapp-1-A01B2C3D4E5-1234567890123-{'a1b2' * 16}",
    "Telegram": f"1234567890:AA{A * 4}abc",
    "SendGrid": f"SG.{A * 3}.{A * 5}",
    "Stripe, restricted": f"rk_live_{A * 3}",
    "with dashes": f"sk-live-{A * 2}",
    "of a model behind another name": f"sk-acme-{A * 3}",
    "Stripe, webhook": f"whsec_{A * 4}",
    "Shopify": f"shpat_{'a1b2c3d4' * 4}",
    "Linear": f"lin_api_{A * 5}",
    "Grafana": f"glsa_{A * 5}",
    "age": f"AGE-SECRET-KEY-1{'QPZRY9X8' * 7}",
}


@pytest.mark.parametrize("key", KEYS.values(), ids=list(KEYS))
def test_the_keys_of_issuers_are_known(key: str) -> None:
    """In a sentence, in a command, in JSON inside text, and in what goes to Core as an error."""
    hiding = Redactor(patterns=SECRET_PATTERNS, key=KEY)

    for form in (
        "used {} here",
        "export X={};",
        '{{"a": "{}"}}',
        "[{}]",
        "https://x.example/?k={}#a",
        r"a\n{}",
    ):
        assert hiding.redact_text(form.format(key)) == form.format(redaction_marker(key, KEY))
    assert key not in scrub(f"used {key} here")
    assert key not in scrub(rf"a\n{key}")


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("postgres://ann:1234@db.example/x", "1234"),
        ("redis://:p@ss@db:6379/0", "p@ss"),
        ("mysql --user ann --password 1234 -h db", "1234"),
        ("deploy --api-key='12 34' now", "12 34"),
        ('deploy --access-token "1234"', "1234"),
        ("curl -H 'X-Api-Key: 1234'", "1234"),
        ('{\\"Authorization\\": \\"Token 1234\\"}', "Token 1234"),
        ("Set-Cookie: sid=1234; Path=/\nnext: 1", "sid=1234; Path=/"),
        ("curl -sSu ann:1234 https://x.example && id -u", "1234"),
        ("curl -uann:1234 https://x.example", "1234"),
        ("curl --proxy-user 'ann:1234' https://x.example", "1234"),
        ("wget --http-password=1234 https://x.example", "1234"),
        ("sshpass -p 1234 ssh ann@x.example", "1234"),
        ("docker login -u ann -p 1234 x.example", "1234"),
        ("mysql -u root -p1234 db", "1234"),
        ("redis-cli -h db -a 1234 ping", "1234"),
        ("openssl rsa -passin pass:1234 -in x", "1234"),
        ("AccountName=ann;AccountKey=abcd1234==;EndpointSuffix=x", "abcd1234=="),
        ("Endpoint=sb://x/;SharedAccessKeyName=r;SharedAccessKey=abcd1234=", "abcd1234="),
        ("Server=db;Uid=sa;Pwd=1234;", "1234"),
        ("host=db user=ann password=1234 dbname=x", "1234"),
        ("https://x.example/?sv=1&sig=abc%3D&se=2", "abc%3D"),
        ("https://x.example/?access_token=1234#a", "1234"),
        ("https://abcdefghij0123456789@x.example/y", "abcdefghij0123456789"),
        ("export DB_PASSWORD='12 34'; next", "12 34"),
        ("PGPASSWORD=1234 psql -h db", "1234"),
        ("machine x.example login ann password 1234", "1234"),
        ("password: hunter", "hunter"),
        ("password = requiredonly", "requiredonly"),
        ("password = none1", "none1"),
        ('password = "string"', "string"),
        ("password: 'required'", "required"),
        ("password = n0ne(x)", "n0ne(x)"),
        ("api_key = pass(word)x", "pass(word)x"),
        ("//x.example/:_authToken=1234", "1234"),
        ('{"auths": {"x.example": {"auth": "YW5uOjEyMzQ="}}}', "YW5uOjEyMzQ="),
        ("CREATE USER ann IDENTIFIED BY '1234'", "1234"),
        ("<password>1234</password>", "1234"),
        ('{"password": "12 34", "n": 2}', "12 34"),
        ("api_key: 1234\nuser: ann", "1234"),
        ('{"name": "X-Api-Key", "value": "1234"}', "1234"),
        ("ann:$2b$12$" + "a1B2./c3D4" * 5 + "a1B", "$2b$12$" + "a1B2./c3D4" * 5 + "a1B"),
        ("https://discord.com/api/webhooks/1234/" + A * 4, A * 4),
        ("$env:X_TOKEN = '12 34'", "12 34"),
        ("export DB_PASS=1234; export NEXT=1", "1234"),
        ("setenv GITHUB_PAT 1234", "1234"),
        ("RUN x\nENV X_TOKEN 1234", "1234"),
        ("db.example:5432:shop:ann:12a4\n", "12a4"),
        ("*:*:*:postgres:12a4", "12a4"),
        ("default login ann account x password 1234", "1234"),
        ("machine x.example\n  login ann\n  password 1234\n", "1234"),
        ("http -a ann:1234 GET x.example", "1234"),
        ("smbclient -U ann%1234 //db/x", "1234"),
        ("htpasswd -b /etc/x ann 1234", "1234"),
        ("7z x -p1234 a.7z", "1234"),
        ("unzip -P 1234 a.zip", "1234"),
        ("ldapsearch -x -w 1234 -D cn=x", "1234"),
        ("openssl enc -aes-256-cbc -k 1234 -in x", "1234"),
        ("sqlcmd -S db -U sa -P 1234", "1234"),
        ("mongosh -u ann -p 1234 db", "1234"),
        ("az login -u ann -p 1234", "1234"),
        ("echo 1234 | docker login -u ann --password-stdin", "1234"),
        ("aws configure set aws_secret_access_key 1234", "1234"),
        ("npm config set //x.example/:_authToken 1234", "1234"),
        ("net use x: \\\\db\\s 1234 /user:ann", "1234"),
        ("ALTER ROLE ann PASSWORD '1234';", "1234"),
        ("the password is Tr0ub4dor, write it down", "Tr0ub4dor,"),
        ("The password is hunter22.", "hunter22"),
        ("my password is: 'hunter22'", "hunter22"),
        ("log in with password hunter22 and go on", "hunter22"),
        ("the password for the old database is Tr0ub4dor", "Tr0ub4dor"),
        ("change the passphrase to hunter22\nthen stop", "hunter22"),
        ("the API key is aB3dE5", "aB3dE5"),
        ("pw: hunter22", "hunter22"),
        ("Passwort: hunter22", "hunter22"),
        ("credentials: ann/Tr0ub4dor", "Tr0ub4dor"),
        ("his PIN is 4821.", "4821"),
        (r'{"log": "a\nPASSWORD=hunter22', "hunter22"),
        (r"a\r\nAuthorization: Basic YW5uOmh1bnRlcjI=", "Basic YW5uOmh1bnRlcjI="),
        (r"a\tcurl -u ann:hunter22 x", "hunter22"),
    ],
)
def test_the_secret_alone_is_hidden_where_the_text_says_which_it_is(text: str, hidden: str) -> None:
    """What stands around it can still be read."""
    redacted = Redactor(patterns=SECRET_PATTERNS, key=KEY).redact_text(text)

    assert redacted == text.replace(hidden, redaction_marker(hidden, KEY))


@pytest.mark.parametrize(
    "text",
    [
        "pk_customer_organization_id",
        "sk_test_the_thing_with_many_words",
        "sk-learn-pipeline-preprocessing-step",
        "npm_config_registry_something_long",
        "hf_transfer_enable_downloads_now",
        "xoxo-love-and-kisses-to-all",
        "basic understanding of bearer certificates",
        "Basic Understanding",
        "cookie policy: accept all",
        "http://localhost:3000/users/@me and mailto:ann@x.example",
        "ssh://git@github.com/x",
        "--password-file /etc/x --token-limit 5",
        "--password --verbose",
        "d41d8cd98f00b204e9800998ecf8427e",
        "550e8400-e29b-41d4-a716-446655440000",
        "docker run -u 1000:1000 -p 80:80 mysql -p 1",
        "ps -u ann; sort -u a:b; git push -u origin main:main; rsync -u a:b c",
        "curl -u ann https://x.example:8080/a and curl -X PUT http://x.example:80",
        "systemctl --user restart x:y; mkdir -p /a; ssh -p 2222 x.example; cp -a b c",
        "AccountName=ann; PWD=/home/ann; PASSWORD=$PASSWORD; SECRET_NAME=x",
        "the login and password fields, a password policy, passwords are long",
        "https://x.example/?page_token=abc&design=1",
        "9780306406157 4006381333931 +49 30 901820 PO-2026-000123 DE89370400440532013000",
        "linux-key-d41d8cd98f00b204e9800998ecf8427e sha512-a1B2c3D4==",
        "0x52908400098527886E0F7030069857D2E4169EE7 1Z999AA10123456784",
        '["Authorization", "Cookie"]',
        "the password is required, incorrect, case-sensitive, stored in the vault, hashed with bcrypt",
        "your password is about to expire; password reset; password must be at least 12 characters",
        "the password is 12 characters long and the token is 4096 bytes, base64-encoded or sha256-hashed",
        "the password is base64 encoded, the secret is in AWS, the token is expired: password is not set",
        "if password is None: raise; password is user.password_hash; token = request.headers.get('x')",
        "token = self._input.LA(1); tokens=512; token_count=12; max_tokens: 4096; TokenElement(id=27)",
        "PASS: TestLogin2\npass: 12 fail: 3\nBYPASS=1; COMPASS=north",
        "Error Tokens for ISO Modula-2",
        "file.py:12:5:error:message src/a.c:1024:3:warning:unused 12:30:45:00:11 00:1a:2b:3c:4d:5e",
        "2001:db8:85a3:0:0:8a2e:370:7334 https://x.example:5432/a:b:c",
        "curl -u https://x.example; 7z x -p; mysql -p db; grep -P 'a1' f; ldapsearch -W -x",
        "machine learning login password form; the login/logout page; credentials: read/write",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "the PIN is required, a pin 1234 of the chip, PIN code: ****",
        "set -x; set PATH /usr/bin; env X=1 y; net use * /delete",
        "password: required",
        "password = None",
        "password = getpass()",
        "password: string",
        "def login(user: str, password: str, api_key: Optional[str] = None) -> None: ...",
        "password=None, client_secret = null; access_token: undefined\napi_key: true",
        "api_key = os.getenv('API_KEY'); password = getpass.getpass('Password: ')",
        "password: ask_user(), passphrase = input(",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """Identifiers, words, digests and addresses."""
    assert Redactor(patterns=SECRET_PATTERNS, key=KEY).redact_text(text) == text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"name": "password", "value": SECRET}, {"name": "password", "value": MARKER}, id="pair"),
        pytest.param(
            {"Key": "Password", "Value": SECRET, "n": 1},
            {"Key": "Password", "Value": MARKER, "n": 1},
            id="tag",
        ),
        pytest.param([["password", SECRET], ["a", "b"]], [["password", MARKER], ["a", "b"]], id="headers"),
        pytest.param((("Password", SECRET),), [["Password", MARKER]], id="one header"),
        pytest.param(["x", "--password", SECRET, "y"], ["x", "--password", MARKER, "y"], id="option"),
        pytest.param(["x", f"--password={SECRET}"], ["x", f"--password={MARKER}"], id="option in one"),
        pytest.param(f"x --password {SECRET} y", f"x --password {MARKER} y", id="option in text"),
        pytest.param(f"x --password '{SECRET}' y", f"x --password '{MARKER}' y", id="quoted option"),
        pytest.param(
            f'{{"name":"password","value":"{SECRET}"}}',
            f'{{"name":"password","value":"{MARKER}"}}',
            id="pair in JSON",
        ),
        pytest.param(f'["--password","{SECRET}"]', f'["--password","{MARKER}"]', id="option in JSON"),
        pytest.param(["password", "email"], ["password", "email"], id="two names"),
        pytest.param({"name": "ann", "value": 3}, {"name": "ann", "value": 3}, id="another pair"),
        pytest.param(["--password"], ["--password"], id="nothing after it"),
    ],
)
def test_a_secret_that_stands_beside_its_name_is_hidden(value: object, expected: object) -> None:
    """Names and values as pairs, lists of headers, and options of commands."""
    assert redactor().redact(value) == expected


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ({"X-Api-Key": SECRET, "Accept": "x"}, SECRET),
        ({"headers": [["Authorization", SECRET], ["Accept", "x"]]}, SECRET),
        ({"name": "Set-Cookie", "value": SECRET}, SECRET),
        ({"password": SECRET, "n": 2}, SECRET),
        ({"env": {"AWS_SECRET_ACCESS_KEY": SECRET}}, SECRET),
        (["x", "--api-key", SECRET], SECRET),
        (["curl", "-s", "-u", f"ann:{SECRET}", "https://x"], f"ann:{SECRET}"),
        (["curl", "--user", f"ann:{SECRET}"], f"ann:{SECRET}"),
        (["docker", "login", "-u", "ann", "-p", SECRET, "x"], SECRET),
    ],
)
def test_what_patterns_hide_in_text_is_hidden_in_data(value: Any, secret: str) -> None:
    """Under its name, in a pair, and among the words of a command, without a name to redact."""
    hidden = Redactor(patterns=SECRET_PATTERNS, key=KEY).redact(value)

    assert json.dumps(hidden) == json.dumps(value).replace(secret, redaction_marker(secret, KEY))


def test_words_of_a_command_that_are_no_secrets_stay() -> None:
    """A user and a group, a port, and what stands after an option that says nothing."""
    hiding = Redactor(patterns=SECRET_PATTERNS, key=KEY)

    for words in (
        ["docker", "run", "-u", "1000:1000", "-p", "80:80", "x"],
        ["curl", "-u", "ann", "-o", "a:b", "https://x.example:80"],
        ["git", "commit", "-m", "login: keep the password policy", "--amend"],
        ["x", "--password"],
    ):
        assert hiding.redact(words) == words


def test_headers_in_bytes_are_hidden() -> None:
    """As servers pass them on."""
    redacted = json.dumps(redactor().redact([(b"password", b"hunter2"), (b"accept", b"x")]))

    assert "aHVudGVyMg" not in redacted
    assert "REDACTED" in redacted


def test_the_same_secret_gives_the_same_marker() -> None:
    """An auditor sees that two calls used one secret, however it was written."""
    hiding = redactor()

    assert hiding.redact([{"password": SECRET}, 'x password="hunter2"', '{"password": "hunter2"}']) == [
        {"password": MARKER},
        f'x password="{MARKER}"',
        json.dumps({"password": MARKER}, separators=(",", ":")),
    ]


def test_another_redactor_gives_another_marker() -> None:
    """The key of the markers is random and stays in the process."""
    assert Redactor("pin").redact({"pin": "0000"}) != Redactor("pin").redact({"pin": "0000"})


def test_text_that_is_nested_too_deeply_is_hidden_as_a_whole() -> None:
    """What cannot be looked into is not let through."""
    shallow = "[" * 70 + "]" * 70
    deep = "[" * 200_000 + "]" * 200_000

    assert "REDACTED" in redactor().redact_text(shallow)
    assert redactor().redact_text(deep) == redaction_marker(deep, KEY)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a" * 500_000, id="one word"),
        pytest.param("password" * 50_000, id="the name, again and again"),
        pytest.param("\\" * 500_000, id="backslashes"),
        pytest.param("password=\\" * 50_000, id="escapes that are not closed"),
        pytest.param("password:{" * 50_000, id="brackets that are not closed"),
        pytest.param('a"' * 250_000, id="quotes"),
        pytest.param("password= " * 50_000, id="empty values"),
        pytest.param("password" + " " * 500_000, id="spaces"),
    ],
)
def test_hostile_text_costs_no_more_than_its_length(text: str) -> None:
    """What is not linear takes minutes here, and runs into the time that a test has."""
    redactor("password", "*secret*").redact_text(text)


@given(st.text(max_size=300))
def test_any_text_can_be_redacted(text: str) -> None:
    """Redaction of text raises nothing, and doing it twice changes nothing more."""
    hiding = redactor("password", "*token*")
    once = hiding.redact_text(text)

    assert hiding.redact_text(once) == once


@given(
    st.text("abcdef0123456789", min_size=8, max_size=20),
    st.sampled_from(
        [
            "password={}",
            "password: {}",
            '"password": "{}"',
            "'password': '{}'",
            'x {{"password": "{}"',
            '{{"a": "x", "password": "{}"}}',
            r"\"password\": \"{}\"",
            "a=1&password={}&b=2",
            "PASSWORD => {}",
            "password := {}",
            r"a\npassword={}",
            r"a\n--password {}",
        ]
    ),
)
def test_no_way_of_writing_it_lets_the_secret_through(secret: str, form: str) -> None:
    """Beside its name, a secret is found in every common notation."""
    assert secret not in redactor().redact_text(form.format(secret))


def test_names_are_remembered_within_bounds() -> None:
    """Names come from arguments, and there is no end of them."""
    hiding = redactor("*x*")
    for number in range(5000):
        hiding.hides(f"name {number}")

    assert len(hiding._remembered) <= 2048


def test_of_gives_none_where_there_is_nothing_to_hide() -> None:
    """An option that is not set costs nothing."""
    assert Redactor.of(None) is None
    assert Redactor.of(()) is None


def test_of_keeps_a_redactor() -> None:
    """A redactor can be shared, so that markers can be compared."""
    hiding = redactor()

    assert Redactor.of(hiding) is hiding
    made = Redactor.of("password")
    assert made is not None
    assert made.hides("password")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        pytest.param(lambda: Redactor([""]), ValueError, "not empty", id="empty name"),
        pytest.param(lambda: Redactor([3]), TypeError, "is text, not 3", id="name that is no text"),  # type: ignore[list-item]  # the mistake
        pytest.param(lambda: Redactor(key=b"short"), ValueError, "at least 16", id="short key"),
        pytest.param(
            lambda: Redactor(patterns=["("]), ValueError, "does not compile: '\\('", id="bad pattern"
        ),
    ],
)
def test_mistakes_are_told_at_once(make: Any, error: type[Exception], message: str) -> None:
    """A redactor that could not do its work is not made."""
    with pytest.raises(error, match=message):
        make()


VIOLATION = {
    "kind": "precondition",
    "spec": "requires(authenticated)",
    "tool": "read",
    "step": 1,
    "args": {"token": "t", "nested": [{"Token": 5}], "n": 1},
    "result": {"ok": True, "token": None},
    "state_snapshot": {"token": [1]},
    "trace": [{"step": 1, "tool": "a", "args": {"token": "t"}, "result": None}],
}


@pytest.mark.parametrize("key", [None, b"\x01" * 32, b"short"], ids=["no key", "key", "short key"])
@pytest.mark.parametrize(
    "fields",
    [{"token"}, {"TOKEN", "n"}, {"tool"}, set()],
    ids=["one", "another case", "a fixed name", "none"],
)
def test_a_violation_is_redacted_as_acel_core_redacts_it(key: bytes | None, fields: set[str]) -> None:
    """The markers are the published ones, key or not."""
    assert redact_violation(VIOLATION, fields, key=key) == published(VIOLATION, fields, key=key)


@pytest.mark.parametrize(
    "values",
    [
        (42, "42", " 42\u200b", "42.0", 42.0, Decimal("42.00")),
        ("Ren\u00e9", "Rene\u0301", "Ren\u00e9\ufe0f"),
        ({"id": 7, "of": ["x "]}, {"id": "7", "of": ["x"]}),
    ],
    ids=["number", "letters", "inside"],
)
def test_one_value_has_one_marker_however_it_is_written(values: tuple[Any, ...]) -> None:
    """As contracts tell keys apart; what they tell apart has another."""
    hide = Redactor("customer", key=KEY)

    markers = {json.dumps(hide.redact({"customer": value})) for value in values}

    assert len(markers) == 1
    assert not markers & {json.dumps(hide.redact({"customer": other})) for other in ("042", "rene", True)}


def test_a_violation_without_some_parts_is_redacted() -> None:
    """What is not there is not added."""
    assert set(redact_violation({"args": {"token": 1}}, "token")) == {"args"}


def test_a_record_keeps_its_own_names() -> None:
    """A secret called like a field of the record does not hide the field."""
    record = {"tool": "args", "args": {"args": 1, "n": 2}, "needs": "args=3"}

    redacted = redact_record(record, Redactor(["args", "tool"], key=KEY))

    assert redacted == {
        "tool": "args",
        "args": {"args": redaction_marker("1", KEY), "n": 2},
        "needs": f"args={redaction_marker('3', KEY)}",
    }
    assert redact_record(record, None) is record


def test_the_hash_of_a_trace_is_keyed_where_something_is_hidden() -> None:
    """It was made of the secrets: without a key, a short one could be tried out."""
    record = {"trace_hash": "ab" * 32, "args": {"pin": "0000"}}

    redacted = redact_record(record, Redactor(["pin"], key=KEY))

    assert redacted["trace_hash"] == redaction_marker("ab" * 32, KEY)
    assert redact_record(record, None)["trace_hash"] == "ab" * 32


def test_the_digest_of_what_was_cut_is_keyed_where_something_is_hidden() -> None:
    """A short secret in a long text that is otherwise known could be found out by trying."""
    cut = Marked({"$cut": "size", "length": 300, "sha256": "ab" * 32, "start": "password=hunter2, and"})

    assert redactor().redact({"text": cut}) == {
        "text": {**cut, "sha256": redaction_marker("ab" * 32, KEY), "start": f"password={MARKER}, and"}
    }


def test_markers_of_a_signed_log_stay_the_same(tmp_path: Path) -> None:
    """After a restart, and in the logs of other workers with the same key; not for anybody else."""
    bodies = []
    for number, key in enumerate(
        (ed25519_signer(tmp_path / "key")[0], ed25519_signer(tmp_path / "key")[0], None)
    ):
        path = tmp_path / f"{number}.jsonl"
        with EvidenceFile(path, signer=key, redact_fields=["pin"], record="all") as log:
            log.record_decision({"input": {"pin": "0000"}})
        bodies.append([entry.data for entry in read_entries(path) if entry.type == "decision"])
    own = Redactor(["pin"], key=KEY)

    assert bodies[0] == bodies[1] != bodies[2]
    assert own.keyed(b"x" * 32) is own
    assert Redactor(["pin"]).keyed(KEY).redact({"pin": 1}) == own.redact({"pin": 1})
