"""``openbox-agentrt evidence``: read and verify logs, their checkpoints and single lines."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from .._files.lock import FileLockedError
from .._files.whole_write import write_private
from .._plain.strict_json import JsonError, read_json
from ..evidence.checkpoints.checkpoint import (
    Checkpoint,
    checkpoint_path,
    leaves_of,
    make_checkpoint,
    parse_checkpoint,
)
from ..evidence.checkpoints.line_proofs import check_proof, prove_line
from ..evidence.checkpoints.merkle import consistency_proof
from ..evidence.checkpoints.signed_notes import NoteKey
from ..evidence.checkpoints.witness import Witness, write_request
from ..evidence.checkpoints.witness_client import WitnessRefusedError, ask_witness, cosigned_checkpoint
from ..evidence.keys import ed25519_signer, read_public_key
from .report import report
from .running import InputError
from .show import show
from .text import compact_json, say
from .verify import verify
from .witness_server import serve

app = typer.Typer(add_completion=False, no_args_is_help=True)

_TIMEOUT_SECONDS = 30.0


def _path(given: str) -> Path:
    return Path(given).expanduser()


_Log = Annotated[Path, typer.Argument(help="The log, format 2.", metavar="LOG", parser=_path)]
_Witnesses = Annotated[
    list[str] | None,
    typer.Option("--witness", help="Key of a witness that has to have seen it.", metavar="NAME+ID+BASE64"),
]


@app.callback()
def evidence() -> None:
    """Read and verify logs, make checkpoints of them, prove single lines, and be a witness."""


# The commands of these names as well: whoever has a folder of evidence finds here all there is to ask of it.
app.command(short_help="Print each call of logs, by time.")(show)
app.command(short_help="Say what was refused, and how often.")(report)
app.command(short_help="Check logs for tampering, and derive decisions again.")(verify)


@app.command()
def checkpoint(
    log: _Log,
    key: Annotated[Path, typer.Option(help="The private key of the log.", metavar="FILE", parser=_path)],
) -> int:
    """Sign what the log is now, and put it beside the log. Keep a copy elsewhere."""
    if not key.exists():
        raise InputError(f"there is no key file {str(key)!r}; give the one that signs the log")
    signer, _ = ed25519_signer(key)
    made = make_checkpoint(log, signer)
    _put(log, made)
    say(f"key for witnesses: {made.key(signer.public_key_hex).write()}", error=True)
    return 0


@app.command()
def request(
    log: _Log,
    old: Annotated[int, typer.Option(help="How many lines the witness has seen.", min=0)] = 0,
) -> int:
    """Print the request for a witness that is reached by file."""
    latest = _latest(log)
    leaves = list(leaves_of(log))[: latest.size]
    if old > len(leaves):
        raise InputError(f"the checkpoint is of {len(leaves)} lines, fewer than {old}")
    print(write_request(latest, old, consistency_proof(leaves, old)), end="")
    return 0


@app.command()
def submit(
    log: _Log, witness: Annotated[str, typer.Option(help="Address of the witness.", metavar="URL")]
) -> int:
    """Ask a witness to sign the latest checkpoint."""
    latest = _latest(log)
    leaves = list(leaves_of(log))[: latest.size]
    try:
        signed = ask_witness(witness, latest, leaves, seconds=_TIMEOUT_SECONDS)
    except WitnessRefusedError as error:
        say(f"FAIL — {error}", error=True)
        return 1
    except OSError as error:
        raise InputError(f"the witness at {witness!r} does not answer ({error})") from error
    except ValueError as error:
        raise InputError(str(error)) from error
    _put(log, signed)
    return 0


@app.command()
def add(
    log: _Log,
    signature: Annotated[Path, typer.Argument(help="What the witness gave.", metavar="FILE", parser=_path)],
) -> int:
    """Add the signature of a witness to the latest checkpoint."""
    line = signature.read_bytes().decode("utf-8", "replace")
    _put(log, cosigned_checkpoint(_latest(log), line))
    return 0


@app.command()
def prove(log: _Log, seq: Annotated[int, typer.Option(help="Number of the line.", min=0)]) -> int:
    """Print a line with a proof that the latest checkpoint has it."""
    try:
        print(json.dumps(prove_line(log, seq, _latest(log))))
    except IndexError as error:
        raise InputError(f"{error}; make a checkpoint first") from error
    return 0


@app.command()
def check(
    proof: Annotated[Path, typer.Argument(help="What `prove` printed.", metavar="FILE", parser=_path)],
    public_key: Annotated[
        str, typer.Option("--key", "--public-key", help="Public key of the log.", metavar="HEX|FILE")
    ],
    witness: _Witnesses = None,
) -> int:
    """Check a single line without its log."""
    try:
        data: Any = read_json(proof.read_bytes())
    except JsonError as error:
        raise InputError(f"{str(proof)!r} is not JSON ({error.reason})") from error
    wrong, said = check_proof(data, read_public_key(public_key), _keys(witness))
    for each in wrong:
        say(f"FAIL — {each}", error=True)
    if said is not None:
        say(f"OK — line {data['number']} is in the log at its checkpoint.")
        print(compact_json(said))
    return 1 if wrong else 0


@app.command()
def witness(
    state: Annotated[Path, typer.Option(help="Folder in which it remembers.", metavar="DIR", parser=_path)],
    key: Annotated[str, typer.Option(help="Its private key.", metavar="FILE")],
    log: Annotated[
        list[str], typer.Option("--log", help="Key of a log that it knows.", metavar="NAME+ID+BASE64")
    ],
    name: Annotated[str, typer.Option(help="Its name.")] = "openbox-agentrt-witness",
    port: Annotated[int | None, typer.Option("--serve", help="Answer on this port.", metavar="PORT")] = None,
    file: Annotated[Path | None, typer.Argument(help="One request.", metavar="REQUEST", parser=_path)] = None,
) -> int:
    """Sign as a witness, only if a log goes on from what was seen."""
    if (port is None) is (file is None):
        raise InputError("give a REQUEST or --serve PORT")
    try:
        own = Witness(state, ed25519_signer(key)[0], name, _keys(log))
    except FileLockedError as error:
        raise InputError(f"another witness has {str(state)!r}") from error
    say(f"key of this witness: {own.key.write()}", error=True)
    with closing(own):
        if file is None:
            return serve(own, port or 0)
        answer = own.add_checkpoint(file.read_bytes())
    print(answer.body, end="", file=sys.stdout if answer.status == 200 else sys.stderr)
    return 0 if answer.status == 200 else 1


def _keys(texts: list[str] | None) -> list[NoteKey]:
    return [NoteKey.read(text) for text in texts or ()]


def _latest(log: Path) -> Checkpoint:
    path = checkpoint_path(log)
    if not path.exists():
        raise InputError(f"{str(log)!r} has no checkpoint; make one with: evidence checkpoint")
    try:
        return parse_checkpoint(path.read_bytes())
    except ValueError as error:
        raise InputError(f"{str(path)!r} is not a checkpoint") from error


def _put(log: Path, signed: Checkpoint) -> None:
    write_private(checkpoint_path(log), signed.note.write().encode(), sync=True)
    print(signed.note.write(), end="")
