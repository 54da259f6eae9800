"""
Secrets that are known by their form, wherever they stand.

The forms are those that issuers document so that scanners can find them: a beginning that nothing else has,
and characters of which a key of that issuer is made. Lengths are a little below the issuer's, because a key
that was cut is still most of a key. A form without such a beginning (32 hexadecimal digits) is no entry:
it would hide every digest.
"""

from itertools import permutations
from typing import Final

SECRET_OR_WORD: Final = "secret_or_word"
"""Group of a pattern that is a secret, unless it only says something of a value."""

_BOUNDARY: Final = r"\b"

_WORD: Final = r"[A-Za-z0-9_-]"

_KEYS: Final = (
    # cloud providers
    r"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}\b",
    rf"AIza{_WORD}{{30,}}",
    rf"GOCSPX-{_WORD}{{20,}}",
    r"ya29\.[A-Za-z0-9_.-]{20,}",
    r"LTAI[A-Za-z0-9]{16,}",
    r"do[oprt]_v1_[a-f0-9]{32,}",
    rf"hv[bsr]\.{_WORD}{{20,}}",
    rf"[A-Za-z0-9]{{14}}\.atlasv1\.{_WORD}{{40,}}",
    r"dapi[a-f0-9]{32}",
    rf"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]+\.)?{_WORD}{{20,}}",
    r"pul-[a-f0-9]{40}",
    rf"pscale_(?:tkn|pw|oauth)_{_WORD}{{20,}}",
    rf"tskey-[a-z]+-{_WORD}{{10,}}",
    r"HRKU-[A-Za-z0-9_-]{30,}",
    r"sb_secret_[A-Za-z0-9_-]{20,}|sbp_[a-f0-9]{40}",
    # code and packages
    r"gh[pousr]_[A-Za-z0-9]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"gl(?:pat|dt|rt|oas|cbt|ptt|ft|soat|agent|imt|ffct)-[A-Za-z0-9_.=-]{20,}",
    r"npm_[A-Za-z0-9]{30,}",
    rf"pypi-AgE{_WORD}{{16,}}",
    r"rubygems_[a-f0-9]{40,}",
    rf"dckr_(?:pat|oat)_{_WORD}{{20,}}",
    r"oy2[a-z0-9]{43}",
    r"AKCp[A-Za-z0-9]{60,}",
    r"ATATT3[A-Za-z0-9_=-]{40,}|ATBB[A-Za-z0-9]{28,}",
    # models
    rf"sk-(?:ant|proj|svcacct|admin|or|lf|None)-{_WORD}{{16,}}",
    rf"sk-(?:[A-Za-z0-9]{{2,12}}-)?[A-Za-z0-9]{{20,}}{_WORD}*",
    r"hf_[A-Za-z0-9]{30,}|api_org_[A-Za-z0-9]{30,}",
    r"(?:gsk|r8)_[A-Za-z0-9]{30,}",
    r"(?:pplx|xai)-[A-Za-z0-9]{40,}",
    # talking and paying
    r"xox[abcdeoprs](?:\.xox[bp])?-[A-Za-z-]{0,9}[0-9][A-Za-z0-9-]{9,}",
    r"xapp-[0-9]-[A-Za-z0-9-]{20,}",
    r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}",
    r"[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    r"[a-f0-9]{32}-us[0-9]{1,2}\b",
    r"SK[a-f0-9]{32}\b",
    r"(?:sk|rk|pk)[_-](?:live|test|prod)[_-][A-Za-z0-9]{10,}",
    r"whsec_[A-Za-z0-9+/=]{20,}",
    r"sq0[a-z]{3}-[A-Za-z0-9_-]{20,}",
    r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    # working together and watching
    r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}",
    r"(?:ntn|secret)_[A-Za-z0-9]{40,}",
    rf"figd_{_WORD}{{30,}}",
    r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}",
    r"sntry[su]_[A-Za-z0-9_=+/-]{30,}",
    r"NR(?:AK|JS|II|RA)-[A-Za-z0-9-]{20,}",
    r"gl(?:c|sa)_[A-Za-z0-9+/_=]{30,}",
    r"dt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{40,}",
    r"EAACEdEose0cBA[A-Za-z0-9]+",
    r"pat[A-Za-z0-9]{14}\.[a-f0-9]{40,}",
    r"v1\.0-[a-f0-9]{24}-[a-f0-9]{100,}",
    r"[A-Za-z0-9_~.]{3}[78]Q~[A-Za-z0-9_~.-]{30,}",
    # others
    r"obx_[A-Za-z0-9_-]{8,}",
    r"ops_eyJ[A-Za-z0-9+/=]{40,}",
    r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
)

_OPTIONS: Final = (
    r"(?:[a-z]+[-_])?pass(?:word|wd|phrase)|pass|pwd|token|secret"
    r"|(?:api|access|account|auth|private|secret|client|bearer)[-_]?(?:key|token|secret|password)"
    r"|secret[-_]access[-_]key"
)

_VARIABLE: Final = (
    r"(?:(?:[A-Z][A-Z0-9]*_)*(?:PG|DB|MYSQL|REDIS)?"
    r"(?:PASSWORD|PASSWD|PASSPHRASE|PWD|SECRET|TOKEN|(?:API|ACCESS|ACCOUNT|PRIVATE|SECRET|ENCRYPTION|SIGNING)_KEY)"
    r"|(?:[A-Z][A-Z0-9]*_)+(?:PASS|PW|PAT|CREDENTIALS?)|(?:PG|DB|MYSQL|REDIS|SMTP|FTP)PASS)"
)
_WORD_OR_QUOTED: Final = r"(?P<secret>'[^']+'|\"[^\"]+\"|[^\s'\"/$=][^\s'\";&|]*)"

_NAMES: Final = (
    # connection strings
    r"(?i:\b(?:account|shared|primary|secondary)(?:access)?key\s*=\s*)(?P<secret>[^\s;'\"&]{8,})",
    r"(?i:;(?:password|pwd)\s*=\s*)(?P<secret>[^\s;'\"/$][^;'\"\r\n]*)",
    # parameters of URLs
    r"(?i:[?&](?:(?:access|auth|refresh|id|api|private|session|security|x-amz-security)[-_]?token|token|api[-_]?key"
    r"|client[-_]secret|secret|passw(?:or)?d|pwd|sig|x-(?:amz|goog)-signature)=)(?P<secret>[^\s&#'\"<>]+)",
    # variables of the environment
    rf"\b{_VARIABLE}=(?P<secret>'[^']*'|\"[^\"]*\"|[^\s'\"/$][^\s'\";&|]*)",
    rf"(?i:\$env:){_VARIABLE}\s*=\s*{_WORD_OR_QUOTED}",
    rf"(?:^|[\s;&|])(?:ENV|ARG|setenv|set\s+-gx?)\s+{_VARIABLE}\s+{_WORD_OR_QUOTED}",
    # what tools keep in files
    r"(?i:\b(?:machine\s+\S+|default)\s+login\s+\S+(?:\s+account\s+\S+)?\s+password\s+)(?P<secret>\S+)",
    r"(?m:^[A-Za-z0-9.*_-]+:(?:543[0-9]|6432|\*):[A-Za-z*][^\s:]*:[A-Za-z*][^\s:]*:(?P<secret>[^\s:]+)$)",
    r":_(?:authToken|auth|password)\s*=\s*(?P<secret>[^\s'\"]+)",
    r"\"auth\"\s*:\s*\"(?P<secret>[A-Za-z0-9+/]{8,}={0,2})\"",
    r"(?i:<(?:password|passwd|passphrase|secret)>)(?P<secret>[^<\s][^<]*)<",
    r"(?i:\b(?:identified\s+by|with\s+password|set\s+password\s*=?)\s*)(?P<secret>'[^']+')",
    # names that are nothing else, in JSON, in settings and in calls
    r"(?i:\b(?:[a-z0-9]+[-_.])*(?:passw(?:or)?d|passphrase|(?:client|shared)[-_]?secret|secret[-_]access[-_]key"
    r"|api[-_]?(?:key|secret|token)|(?:access|auth|refresh|session|bearer|security)[-_]?token|private[-_]key)"
    r"\\*['\"]?[ \t]*(?:=>|[:=])[ \t]*)"
    r"(?P<secret_or_word>'[^']+'|\"[^\"]+\"|\\+[\"'][^\"'\\]+\\+[\"']|[^\s'\";&\\$][^\s'\";&\\]*)",
    # of a password, which can be tried out
    r"\$(?:2[abxy]?\$[0-9]{2}\$[./A-Za-z0-9]{53}|(?:apr1|y|[156])\$(?:[^\s:$]+\$)*[./A-Za-z0-9]{20,})",
)

_END: Final = r"(?P<secret>'[^']*'|\"[^\"]*\"|[^\s'\"|&;<>-][^\s'\"]*)"
_SAME: Final = r"\b[^\r\n|;&]*?\s"
_COMMANDS: Final = (
    # USER:PASSWORD is one word, and a user and a group are for other commands.
    rf"\bcurl{_SAME}(?:-[A-Za-z]*[uU]\s*|--(?:proxy-)?user(?:=|\s+))['\"]?[^\s:'\"]+:(?P<secret>[^\s'\"/][^\s'\"]*)",
    rf"\bhttps?{_SAME}(?:-a|--auth)(?:=|\s+)['\"]?[^\s:'\"]+:(?P<secret>[^\s'\"/][^\s'\"]*)",
    rf"\b(?:smbclient|rpcclient|mount\.cifs){_SAME}-U\s*['\"]?[^\s%'\"]+%(?P<secret>[^\s'\"]+)",
    rf"\bhtpasswd\s+(?:-[A-Za-z]+\s+)*-[A-Za-z]*b[A-Za-z]*\s+(?:[^\s-]\S*\s+){{2}}{_END}",
    rf"\bsshpass\s+(?:-[ev]\s+)*-p\s*{_END}",
    rf"\b(?:docker|podman|helm|oras|skopeo|az|oc){_SAME}login{_SAME}-p\s*{_END}",
    rf"\b(?:twine|mongosh|mongo|mongodump|mongorestore|mongoexport|mongoimport){_SAME}-p\s+{_END}",
    rf"\b(?:mysql|mysqldump|mysqladmin|mysqlimport|mariadb|mariadb-dump|7za?|rar|unrar){_SAME}-p{_END}",
    rf"\bredis-cli{_SAME}-a\s+{_END}",
    rf"\b(?:zip|unzip|sqlcmd|bcp){_SAME}-P\s*{_END}",
    rf"\bldap(?:search|modify|add|delete|passwd|whoami){_SAME}-w\s*{_END}",
    rf"\bopenssl\s+enc{_SAME}-(?:k|K)\s+{_END}",
    rf"(?:^|[\s;&|])(?:echo|printf)\s+(?:-\S+\s+)?{_END}\s*\|[^|\r\n]*--password-stdin\b",
    rf"\baws\s+configure\s+set\s+\S*(?:secret_access_key|session_token)\s+{_END}",
    rf"\bnpm\s+(?:config\s+)?set\s+\S*:_(?:authToken|auth|password)\s+{_END}",
    r"\bnet\s+use\s+(?:\S+\s+)?\\\\\S+\s+(?P<secret>[^\s/*][^\s]*)",
    rf"\s-(?:pass(?:in|out)?|k)\s+pass:{_END}",
)

# In sentences, most words after "password" are none. One is what has digits among letters of both cases, or
# what has digits and ends its sentence; neither is a call in a program.
_REST: Final = r"[^\s'\"`()<>{}\[\]]*"
_MIXED: Final = "|".join(
    rf"{_REST}{first}{_REST}{second}{_REST}{third}[^\s'\"`]*"
    for first, second, third in permutations(("[a-z]", "[A-Z]", "[0-9]"))
)
_LAST: Final = (
    r"(?:[A-Za-z!@$%^&*+_-]*[0-9][^\s'\"`.,;:!?()]{3,}|[A-Za-z!@$%^&*+_-]{4,}[0-9][^\s'\"`.,;:!?()]*)"
)
_ENDS: Final = r"['\"`]?(?:[.,;!?)]*\s*$|[.,;!?)]+\s|\s+(?:and|for|to|on|at)\b)"
_CALLED: Final = (
    r"(?i:\b(?:pass(?:word|phrase|wd|code|wort)s?|kennwort|mot\s+de\s+passe|contrase(?:ñ|n)a|pw|pwd"
    r"|(?:api|secret|access|private|signing)[\s-]keys?|(?:(?:api|access|auth|bearer|session|refresh)[\s-])?tokens?|secret)"
    r"(?:(?:\s+(?:for|of|on)(?:\s+[^\s.,;:]+){1,4}?)?(?:\s*[:=]\s*|\s+(?:is|are|was|be|to|=|:)\s*:?\s+)|\s+))['\"`]?"
)
_SENTENCES: Final = (
    rf"{_CALLED}(?P<secret>{_MIXED})",
    rf"(?m:{_CALLED}(?P<secret>{_LAST}){_ENDS})",
    rf"(?i:\b(?:login|log\s+in|credentials?|creds)\s*[:=]?\s+(?:as\s+|with\s+)?[\w.@-]+\s*/\s*)(?P<secret>{_MIXED})",
    r"\b(?i:pin(?:\s+code)?)(?:\s*[:=]\s*|\s+is:?\s+)(?P<secret>[0-9]{4,8})\b",
    r"(?i:\bpassword\s+)(?P<secret>'[^']+')\s*(?:;|$)",
)


def _after_escapes(pattern: str) -> str:
    """
    Let what begins at the beginning of a word begin after an escape too.

    In a text that is quoted in JSON or in a program, what stands after a line feed stands after ``\\n``.
    """
    at = pattern.find(_BOUNDARY)
    flags = pattern[: max(at, 0)]
    if at < 0 or flags.replace("(?i:", "").replace("(?m:", ""):
        return pattern
    rest = pattern[at + len(_BOUNDARY) :]
    secret = rest if "(?P<secret" in rest else f"(?P<secret>{rest})"
    return rf"{flags}(?:\b|\\[bfnrt]){secret}"


KEY_FORMS: Final = rf"(?:{'|'.join(_KEYS)})"
"""The keys of issuers, which begin a word, in a syntax that every engine for regular expressions has."""

SECRET_PATTERNS: Final[tuple[str, ...]] = tuple(
    _after_escapes(pattern)
    for pattern in (
        r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?"
        r"(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
        # No word of a sentence: "basic understanding" is none, "Bearer abcdefgh1234" is one.
        r"\b(?i:bearer|basic)\s+(?:[A-Za-z0-9][a-z]*[A-Z0-9._~+/=-][A-Za-z0-9._~+/=-]{3,}|[a-z]{24,})",
        r"(?i:\b(?:(?:proxy-)?authorization|(?:set-)?cookie|x-(?:api|auth|access)-(?:key|token))"
        r"\\*(?:['\"]?\s*[:=]\s*|['\"]\s*,\s*\\*['\"]val(?:ue)?\\*['\"]\s*:\s*)\\*['\"]?)(?P<secret>[^\s'\"\\,;](?:[^\r\n'\"\\]*[^\s'\"\\,;])?)",
        r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*",
        rf"\b{KEY_FORMS}",
        r"\bdiscord(?:app)?\.com/api/webhooks/[0-9]+/(?P<secret>[A-Za-z0-9_-]{20,})",
        r"\bwebhook\.office\.com/webhookb2/(?P<secret>[A-Za-z0-9@/_-]{20,})",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9+/]{20,})",
        # The password in a URL, up to the last @ before its path.
        r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@?#'\"<>]*:(?P<secret>[^\s/?#'\"<>]+)@",
        # ... and a token in the place of the user.
        r"\bhttps?://(?P<secret>[A-Za-z0-9_-]{20,})@",
        rf"(?i:(?:^|[\s'\"])--?(?:{_OPTIONS})(?:=|\s+))(?P<secret>'[^']*'|\"[^\"]*\"|[^\s'\"-][^\s'\"]*)",
        *_NAMES,
        *_COMMANDS,
        *_SENTENCES,
    )
)
"""
Values that are secrets wherever they stand: private keys, tokens, keys of about fifty issuers, headers that
carry keys, hashes of passwords, and passwords in URLs, connection strings, variables and settings, on command
lines, and in sentences that say so.

Where a pattern has a group of the name ``secret``, that is the secret, and the rest only says so; one of the
name ``secret_or_word`` is, unless it is a call or a word that says something of a value. What stands in data
under a name, as in ``{"X-Api-Key": ...}``, is hidden as it would be in text.
"""
