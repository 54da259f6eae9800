"""
The words without which no secret is found: a text that has none of them need not be searched.

Each of `SECRET_PATTERNS` has groups of words here, and finds nothing in a text that lacks all words of one
of its groups. Letters count in either case. To find too many texts costs time; to find too few hides nothing,
so the tests make texts of the patterns and look for their words.
"""

from __future__ import annotations

from typing import Final

_DIGITS: Final = tuple("0123456789")
_WORDS: Final = bytes(code if chr(code).isalnum() and code < 128 else 32 for code in range(256))
_JOINED: Final = bytes(code if code in b"-._" else _WORDS[code] for code in range(256))
_LONG: Final = "\0long"
"""Stands in a text for a run of characters that keys have which begin with nothing of their own."""

_ISSUERS: Final = (
    *("akia", "asia", "abia", "acca", "a3t", "aiza", "gocspx-", "ya29.", "ltai", "_v1_", "hvb.", "hvs."),
    *("hvr.", ".atlasv1.", "pscale_", "tskey-", "hrku-", "sb_secret_", "dp.pt.", "dp.st.", "dp.ct."),
    *("dp.sa.", "dp.scim.", "dp.audit.", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
    *("gldt-", "glrt-", "gloas-", "glcbt-", "glptt-", "glft-", "glsoat-", "glagent-", "glimt-", "glffct-"),
    *("npm_", "pypi-age", "dckr_", "atatt3", "atbb", "sk-", "hf_", "api_org_", "gsk_", "r8_", "xox"),
    *("xapp-", ":aa", "sg.", "k_live", "k-live", "k_test", "k-test", "k_prod", "k-prod", "whsec_", "sq0"),
    *("lin_api_", "lin_oauth_", "figd_", "sntry", "obx_", "nrak-", "nrjs-", "nrii-", "nrra-", "glc_"),
    *("glsa_", "dt0", "eaacedeose0cba", "7q~", "8q~", "ops_eyj"),
)
_VARIABLES: Final = ("pass", "pwd", "secret", "token", "_key", "_pw", "_pat", "_credential")
_ENDS: Final = (
    *("password", "passwd", "passphrase", "pwd", "secret", "token", "_key", "pass", "_pw", "_pat"),
    *("_credential", "_credentials"),
)
_CALLED: Final = ("pass", "kennwort", "contrase", "pw", "key", "token", "secret")

SECRET_WORDS: Final[tuple[tuple[tuple[str, ...], ...], ...]] = (
    # private keys, headers, keys
    (("-----begin ",),),
    (("bearer", "basic"),),
    (("authorization", "cookie", "x-api-", "x-auth-", "x-access-"),),
    (("eyj",),),
    ((*_ISSUERS, _LONG),),
    # URLs
    (("discord",),),
    (("webhook.office",),),
    (("hooks.slack",),),
    (("://",), ("@",)),
    (("://",), ("@",)),
    # options
    (("pass", "pwd", "token", "secret", "key"), ("-",)),
    # names
    (("accesskey", "accountkey", "sharedkey", "primarykey", "secondarykey"),),
    ((";password", ";pwd"),),
    (
        ("token", "apikey", "api_key", "api-key", "secret", "passwd", "password", "pwd", "sig"),
        ("?", "&"),
        ("=",),
    ),
    (tuple(f"{end}=" for end in _ENDS),),
    (("$env:",),),
    (("env", "arg", "set"), _VARIABLES),
    (("password",), ("login",)),
    ((":543", ":6432", ":*:"),),
    ((":_auth", ":_password"),),
    (('"auth"',),),
    (("<passw", "<passphrase", "<secret"),),
    (("identified", "password"), ("'",)),
    (
        (
            *("passwd", "password", "passphrase", "secret", "token", "private_key", "private-key"),
            *("apikey", "api_key", "api-key"),
        ),
        (":", "="),
    ),
    (("$2$", "$2a$", "$2b$", "$2x$", "$2y$", "$apr1$", "$y$", "$1$", "$5$", "$6$"),),
    # commands
    (("curl",), (":",)),
    (("http",), ("-a",), (":",)),
    (("smbclient", "rpcclient", "mount.cifs"),),
    (("htpasswd",),),
    (("sshpass",),),
    (("docker", "podman", "helm", "oras", "skopeo", "az", "oc"), ("login",), ("-p",)),
    (("twine", "mongo"), ("-p",)),
    (("mysql", "mariadb", "7z", "rar"), ("-p",)),
    (("redis-cli",),),
    (("zip", "sqlcmd", "bcp"), ("-p",)),
    (("ldap",), ("-w",)),
    (("openssl",),),
    (("--password-stdin",),),
    (("secret_access_key", "session_token"),),
    ((":_auth", ":_password"),),
    (("net",), ("use",), ("\\\\",)),
    (("pass:",),),
    # sentences
    (_CALLED, _DIGITS),
    (_CALLED, _DIGITS),
    (("login", "cred", "log"), ("in", "cred"), ("/",), _DIGITS),
    (("pin",), _DIGITS),
    (("password",), ("'",)),
)


def folded(text: str) -> str:
    """Give a text as words are looked for in it."""
    # Not `lower`: two letters that are no ASCII fold to some, and patterns take them for those.
    words = text.casefold()
    return words + _LONG if _has_long_run(text) else words


def may_find(groups: tuple[tuple[str, ...], ...], words: str) -> bool:
    """Tell whether a folded text has a word of each group."""
    for group in groups:
        for word in group:
            if word in words:
                break
        else:
            return False
    return True


def _has_long_run(text: str) -> bool:
    """Tell whether a text has a word of letters and digits, or of those and joints, that is long for one."""
    data = text.encode("ascii", "replace")
    words, joined = data.translate(_WORDS).split(), data.translate(_JOINED).split()
    return any(len(word) >= 32 for word in words) or any(
        len(word) >= 58 and word.count(b".") >= 2 for word in joined
    )
