"""What the commands about budgets have in common: where the ledger is, keys, and answers as JSON."""

import argparse
import json
import sys
import uuid
from collections.abc import Mapping
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from ledger.client.calling import DEFAULT_SERVER, SERVER_VARIABLE, TOKEN_VARIABLE

WHERE = f"""
The ledger is at --server ({SERVER_VARIABLE}, or {DEFAULT_SERVER}); the token of
the caller is in {TOKEN_VARIABLE}.
"""
ONCE = """
Every change has an idempotency key: yours by --key, or one that is made and
printed. If the answer is lost, the same command with the same key gives it
again, and changes nothing twice.
"""


def add_key(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key", metavar="KEY", help="the idempotency key (a new one)")


def key_of(arguments: argparse.Namespace) -> str:
    """The key that was given; or a new one, told before it is used."""
    if arguments.key:
        return str(arguments.key)
    made = f"cli-{uuid.uuid4().hex}"
    print(f"idempotency key: {made}", file=sys.stderr)
    return made


def as_json(message: Message) -> dict[str, Any]:
    """A message with the names of the contract; amounts stay texts, and what is absent is absent."""
    return MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)


def print_json(found: Mapping[str, Any]) -> None:
    print(json.dumps(found))
