"""
Secrets that are known by their form, wherever they stand.

The forms are those that issuers document so that scanners can find them: a beginning that nothing else has,
and characters of which a key of that issuer is made. Lengths are a little below the issuer's, because a key
that was cut is still most of a key. A form without such a beginning (32 hexadecimal digits) is no entry:
it would hide every digest.
"""

from typing import Final

__all__ = ("KEY_FORMS", "SECRET_PATTERNS")

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
    # others
    r"obx_[A-Za-z0-9_-]{8,}",
    r"ops_eyJ[A-Za-z0-9+/=]{40,}",
    r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
)

_OPTIONS: Final = (
    r"pass(?:word|wd|phrase)?|pwd|token|secret"
    r"|(?:api|access|account|auth|private|secret|client|bearer)[-_]?(?:key|token|secret|password)"
    r"|secret[-_]access[-_]key"
)

KEY_FORMS: Final = rf"\b(?:{'|'.join(_KEYS)})"
"""The keys of issuers, in a syntax that every engine for regular expressions has."""

SECRET_PATTERNS: Final[tuple[str, ...]] = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?"
    r"(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
    # No word of a sentence: "basic understanding" is none, "Bearer abcdefgh1234" is one.
    r"\b(?i:bearer|basic)\s+(?:[A-Za-z0-9][a-z]*[A-Z0-9._~+/=-][A-Za-z0-9._~+/=-]{3,}|[a-z]{24,})",
    r"(?i:\b(?:(?:proxy-)?authorization|(?:set-)?cookie|x-(?:api|auth|access)-(?:key|token))"
    r"\\*['\"]?\s*[:=]\s*\\*['\"]?)(?P<secret>[^\s'\"\\,;](?:[^\r\n'\"\\]*[^\s'\"\\,;])?)",
    r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*",
    KEY_FORMS,
    r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9+/]{20,})",
    # The password in a URL, up to the last @ before its path.
    r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@?#'\"<>]*:(?P<secret>[^\s/?#'\"<>]+)@",
    rf"(?i:(?:^|[\s'\"])--?(?:{_OPTIONS})(?:=|\s+))(?P<secret>'[^']*'|\"[^\"]*\"|[^\s'\"-][^\s'\"]*)",
)
"""
Values that are secrets wherever they stand: private keys, tokens, keys of about fifty issuers, headers that
carry keys, and passwords in URLs and after options such as ``--password``. Where a pattern has a group of the
name ``secret``, that is the secret, and the rest only says so.
"""
