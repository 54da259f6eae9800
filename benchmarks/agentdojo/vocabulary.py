"""
How a request names what it wants done, and what a tool's parameters mean.

Written from the user tasks' prompts, the tools' names and descriptions and the types of their results.
Nothing here was written from an injection task, and nothing here looks at a ground truth.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# Tools that only look. Everything else has an effect, and is made only if the request asks for it.
LOOKS = ("check_", "get_", "list_", "read_", "search_")

_REQUEST = r"(?:please|can you|could you|help us|help me|go ahead and)\s"

# How a request asks for an effect. Quoted text is left out first: it is content and not a wish.
# A statement ("I'll book a room later", "remind me to book") asks for nothing.
ASKS: Mapping[str, str] = {
    # mail, calendar, drive
    "send_email": r"\bsend\b[^?!]*\be-?mail\b",
    "delete_email": r"\bdelete\b[^.?!]*\be-?mails?\b",
    "create_calendar_event": r"\b(?:create|add) an? (?:[\w-]+ ){0,5}(?:event|reminder)\b",
    "cancel_calendar_event": r"\bcancel\b",
    "reschedule_calendar_event": r"\breschedule\b",
    "add_calendar_event_participants": r"\badd\b[^?!]*\bto the participants\b",
    "create_file": r"\bcreate an? (?:\w+ ){0,3}file\b",
    "append_to_file": r"\badd\b[^?!]*\bto the (?:\w+ ){0,2}(?:file|list)\b",
    "delete_file": r"\bdelete\b[^.?!]*\bfiles?\b",
    "share_file": r"\bshare the (?:file|document)\b",
    # bank account
    "send_money": r"\b(?:pay|refund|send|transfer)\b",
    "schedule_transaction": r"\bset up\b[^.?!]*\b(?:scheduled|recurring)\b",
    "update_scheduled_transaction": r"\b(?:adjust|update)\b[^.?!]*\b(?:rent payment|standing orders?)\b",
    "update_user_info": r"\b(?:change|update)\b[^.?!]*\b(?:account|user) info",
    "update_password": r"\b(?:change|set|update)\b[^.?!]*\bpassword\b",
    # chat and web
    "send_direct_message": r"\b(?:send|write|message)\b(?![^.?!]*\bchannel starting\b)",
    "send_channel_message": r"\b(?:post|reply|write)\b",
    "invite_user_to_slack": r"\binvite\b",
    "remove_user_from_slack": r"\bremove\b[^.?!]*\bslack\b",
    "add_user_to_channel": r"\badd\b[^.?!]*\bchannels?\b",
    "post_webpage": r"\bpost\b[^.?!]*\bto (?:our|the|my) (?:website|page)\b",
    # bookings
    "reserve_hotel": rf"\bmake a reservation\b|{_REQUEST}(?:book|reserve)\b[^.?!]*\b(?:hotel|room)\b",
    "reserve_restaurant": rf"{_REQUEST}(?:book|reserve)\b[^.?!]*\b(?:restaurant|table)\b",
    "reserve_car_rental": rf"{_REQUEST}(?:book|reserve|rent)\b[^.?!]*\bcars?\b",
}

# The user hands the choice of what to do to a text that has yet to be read.
DELEGATES = r"\bdo (?:all )?the (?:actions|tasks)\b|\bfollow the instructions\b"

# Parameters that say where something goes or whom it concerns. For tools with an effect, and a `url` for
# every tool: to fetch an address is to talk to whoever owns it.
DESTINATIONS = frozenset(
    {"bcc", "cc", "channel", "email", "participants", "recipient", "recipients", "url", "user", "user_email"}
)
# Of those, what only the user can name: a booking is for the house that was asked for.
NAMED_ONLY = frozenset({"company", "hotel", "restaurant"})
# Parameters that are the user's words or nothing: a password is one that the user has quoted.
QUOTED_ONLY: Mapping[str, tuple[str, ...]] = {"update_password": ("password",)}
# Parameters that are one of the texts which the request quotes, if it quotes any.
TITLES: Mapping[str, tuple[str, ...]] = {
    "create_calendar_event": ("title",),
    "create_file": ("filename",),
    "send_email": ("subject",),
}
# Parameters that carry text to somebody else. A link in it has to be one that the user or a colleague gave.
BODIES = frozenset({"body"})

_MAIL = ("sender", "recipients", "cc", "bcc")
_FILE = ("owner", "shared_with")
_EVENT = ("participants",)
_PAYMENT = ("sender", "recipient")

# Fields of results that the service itself fills in: whom a record is from, to or about. Not what it says.
# An empty tuple: the result is a list of names.
RECORDS: Mapping[str, tuple[str, ...]] = {
    "get_draft_emails": _MAIL,
    "get_received_emails": _MAIL,
    "get_sent_emails": _MAIL,
    "get_unread_emails": _MAIL,
    "search_emails": _MAIL,
    "search_contacts_by_email": ("email",),
    "search_contacts_by_name": ("email",),
    "get_day_calendar_events": _EVENT,
    "search_calendar_events": _EVENT,
    "get_file_by_id": _FILE,
    "list_files": _FILE,
    "search_files": _FILE,
    "search_files_by_filename": _FILE,
    "get_most_recent_transactions": _PAYMENT,
    "get_scheduled_transactions": _PAYMENT,
    "get_channels": (),
    "get_users_in_channel": (),
    "read_channel_messages": ("sender",),
    "read_inbox": ("sender",),
}
# Free text by colleagues, inside the workspace: what it names, a colleague has named.
COLLEAGUES: Mapping[str, str] = {"read_channel_messages": "body", "read_inbox": "body"}

QUOTED = re.compile(r"""(?<!\w)'([^'\n]+)'(?!\w)|"([^"\n]+)\"""")
LINK = re.compile(r"(?:https?://|www\.)[^\s'\"<>]+", re.IGNORECASE)
MAIL_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
