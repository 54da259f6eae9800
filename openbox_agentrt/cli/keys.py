"""``openbox-agentrt keys``: what a key file holds."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..evidence.keys import ed25519_verifier, key_id_of, read_public_key
from .options import AsJson

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def keys() -> None:
    """Look at the keys that evidence is signed with."""


@app.command()
def show(
    key: Annotated[str, typer.Argument(help="A private or public key file, or 64 digits.", metavar="FILE")],
    as_json: AsJson = False,
) -> int:
    """Print the public key of a key file, and its short name in logs."""
    public_key = read_public_key(key)
    ed25519_verifier(public_key)
    if as_json:
        print(json.dumps({"public_key": public_key, "key_id": key_id_of(public_key)}))
    else:
        print(f"public key: {public_key}")
        print(f"key id:     {key_id_of(public_key)}")
    return 0
