"""The command line: serve, migrate, check, demo, exercise, token, budget, price, quote, prices, hold, watch.

Results go to stdout, everything else to stderr. Exit status: 0 done, 1 the books violate a law, 2 it could not be done (the
message says what to do).
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy.exc
from rich.console import Console
from rich.table import Table

from ledger import logs, settings
from ledger.audit.check import LawResult, check
from ledger.budgets.commands import COMMANDS
from ledger.client.calling import CannotReach
from ledger.domain.model import Role
from ledger.engine.lane import Engine
from ledger.engine.reader import Reader
from ledger.holds import listing, showing, watching
from ledger.prices import importing, pricing, quoting
from ledger.prices.files import UnfitFile
from ledger.reconcile.expiry import Expiry
from ledger.reconcile.parking import Parking
from ledger.service import tokens
from ledger.service.server import Worker, serve
from ledger.settings import Settings, SettingsError
from ledger.store.database import Database
from ledger.store.fitness import UnfitDatabase, verify_schema
from ledger.store.migrate import FutureSchema, migrate
from ledger.store.postgres import LocalPostgres, PostgresUnavailable, default_data_dir

DONE, VIOLATED, IMPOSSIBLE = 0, 1, 2
PIPE_WIDTH = 240

ABOUT = """A double-entry ledger of spend: budgets, holds whose outcome may be unknown,
and nothing but evidence settles them."""
EPILOG = """
Without a database URL (DATABASE_URL, or SPEND_LEDGER_DATABASE_URL) a PostgreSQL
of our own runs for as long as the command does, and keeps its data in
--data-dir. All settings: spend-ledger serve --help.

Budgets, prices and holds are also made by gRPC calls: ledger/demo/first_hold.py does
it all, from an empty ledger to a settled hold.

examples:
  spend-ledger demo
  spend-ledger token --tenant acme --actor gateway-1 --role gateway
  spend-ledger serve
  spend-ledger check
"""
SERVE_EPILOG = """
examples:
  spend-ledger serve
      on a PostgreSQL of our own, which is migrated first
  DATABASE_URL=postgresql://ledger@db/ledger spend-ledger serve
      on yours: run `spend-ledger migrate` before each new version
  spend-ledger serve --listen 127.0.0.1:0
      on a free port; the log line "listening" names it

settings, by environment variable, with their defaults:
"""
MIGRATE_EPILOG = """
Does nothing if the schema is that of this version. Two at once do it once.

examples:
  DATABASE_URL=postgresql://ledger@db/ledger spend-ledger migrate
  spend-ledger migrate --json
      {"from": null, "to": "0002"}
"""
CHECK_EPILOG = """
Reads one snapshot, without locks, and changes nothing: it may run beside the
service, or on a replica. Exit status 1 if a law is violated.

examples:
  spend-ledger check
  spend-ledger check --json | jq '.laws[] | select(.violations > 0)'
"""
CALLERS_EPILOG = """
roles:
  gateway   reserve, dispatch, cancel and release holds; resolve on evidence
  finance   resolve on evidence, correct, accept overruns, cancel holds, grant
            money, put price cards and evidence policies
  auditor   read everything
  admin     make, change, move and close budgets, grant money, put price cards
            and evidence policies

The token is printed once; only its SHA-256 is kept. A running server knows it
within a second. To take it back, remove its line from the file.

examples:
  spend-ledger token --tenant acme --actor gateway-1 --role gateway
  TOKEN=$(spend-ledger token --tenant acme --actor books --role finance)
"""


# Their messages say what to do.
_IMPOSSIBLE = (
    SettingsError,
    tokens.TokensError,
    PostgresUnavailable,
    UnfitDatabase,
    FutureSchema,
    UnfitFile,
    CannotReach,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command, and gives the exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] in (["demo"], ["exercise"]):
        # They read their own arguments.
        return _play(*given)
    arguments = _parser().parse_args(given)
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        status = run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Who reads has enough, as `head` has. What is left is for nobody, or Python would complain of it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except (*_IMPOSSIBLE, OSError) as error:
        return _cannot(str(error))
    except sqlalchemy.exc.DBAPIError as error:
        return _cannot(f"The database refuses or cannot be reached: {str(error.orig).strip()}\nCheck DATABASE_URL.")
    return status


def _cannot(message: str) -> int:
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"spend-ledger: {message}", markup=False, style="red")
    return IMPOSSIBLE


def _parser() -> argparse.ArgumentParser:
    parser = _with_examples(argparse.ArgumentParser, ABOUT, EPILOG, prog="spend-ledger")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str, run: Callable[[argparse.Namespace], int], description: str, epilog: str, **more: bool
    ) -> argparse.ArgumentParser:
        added = _with_examples(commands.add_parser, description, epilog, name=name, help=description)
        added.set_defaults(run=run)
        if more.get("database", True):
            added.add_argument(
                "--data-dir",
                type=Path,
                metavar="DIR",
                help=f"where our own PostgreSQL keeps its data ({default_data_dir()})",
            )
        if more.get("as_json", True):
            added.add_argument("--json", action="store_true", help="print the result as JSON")
        return added

    serving = command("serve", _serve, "Run the server.", SERVE_EPILOG + _defaults(), as_json=False)
    serving.add_argument(
        "--listen", metavar="HOST:PORT", help=f"where to listen ({Settings.model_fields['listen'].default})"
    )
    command("migrate", _migrate, "Bring the database to the schema of this version.", MIGRATE_EPILOG)
    command("check", _check, "Recompute every law of the books from the rows.", CHECK_EPILOG)
    commands.add_parser(
        "demo", help="Tell the story of nine calls, with everything that it needs, and clean up.", add_help=False
    )
    commands.add_parser(
        "exercise", help="Break calls at every boundary, kill what makes them, and see what is true.", add_help=False
    )
    making = command("token", _token, "Make a bearer token for a caller.", CALLERS_EPILOG, database=False)
    making.add_argument("--tenant", required=True, help="whose books: one company or department")
    making.add_argument("--actor", required=True, help="the name of the service that will call")
    pricing.add_arguments(command("price", pricing.run, pricing.DESCRIPTION, pricing.EPILOG, database=False))
    quoting.add_arguments(command("quote", quoting.run, quoting.DESCRIPTION, quoting.EPILOG, database=False))
    budget = commands.add_parser("budget", help="Look at the budgets of a ledger, and change them.")
    acting = budget.add_subparsers(required=True, metavar="ACTION")
    for name, one in COMMANDS.items():
        added = _with_examples(acting.add_parser, one.description, one.epilog, name=name, help=one.description)
        added.set_defaults(run=one.run)
        added.add_argument("--json", action="store_true", help="print the result as JSON")
        one.add_arguments(added)
    prices = commands.add_parser("prices", help="Put the prices of a catalogue into the ledger.")
    acting = prices.add_subparsers(required=True, metavar="ACTION")
    bringing = _with_examples(
        acting.add_parser, importing.DESCRIPTION, importing.EPILOG, name="import", help=importing.DESCRIPTION
    )
    bringing.set_defaults(run=importing.run)
    bringing.add_argument("--json", action="store_true", help="print the result as JSON")
    importing.add_arguments(bringing)
    holds = commands.add_parser("hold", help="Show a hold with its history, or list holds.")
    showings = holds.add_subparsers(required=True, metavar="ACTION")
    for action, module in (("show", showing), ("list", listing)):
        added = _with_examples(
            showings.add_parser, module.DESCRIPTION, module.EPILOG, name=action, help=module.DESCRIPTION
        )
        added.set_defaults(run=module.run)
        added.add_argument("--json", action="store_true", help="print the result as JSON")
        module.add_arguments(added)
    watching.add_arguments(command("watch", watching.run, watching.DESCRIPTION, watching.EPILOG, database=False))
    roles = [role.value for role in Role if role is not Role.SYSTEM]
    making.add_argument("--role", required=True, choices=roles, help="what it may do; see below")
    for added in (serving, making):
        added.add_argument(
            "--tokens-file",
            type=Path,
            metavar="FILE",
            help=f"the hashes of the tokens ({settings.default_tokens_file()})",
        )
    return parser


def _with_examples(
    make: Callable[..., argparse.ArgumentParser], description: str, epilog: str, **more: Any
) -> argparse.ArgumentParser:
    return make(description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter, **more)


def _defaults() -> str:
    lines = [
        f"  {settings.PREFIX}{name.upper()} {'' if value is None else value}".rstrip() + f"\n      {field.description}"
        for name, field in Settings.model_fields.items()
        for value in [field.get_default(call_default_factory=True)]
    ]
    programs = "installed or wheel: the programs of our own PostgreSQL"
    return "\n".join([*lines, f"  {settings.PREFIX}POSTGRES\n      {programs}"])


def _serve(arguments: argparse.Namespace) -> int:
    chosen = _settings(arguments, listen=arguments.listen, tokens_file=arguments.tokens_file)
    logs.configure(chosen.log_level)
    # Before a database is started for nothing.
    tokens.Tokens.load(chosen.tokens_file)

    def workers(engine: Engine, reader: Reader) -> Sequence[Worker]:
        every = chosen.sweep_seconds
        return (Expiry(engine, reader, every), Parking(engine, reader, every, chosen.parking_seconds))

    with _database(chosen) as url:
        if chosen.database_url is None:
            migrate(url)
        asyncio.run(serve(chosen, url, workers))
    return DONE


def _migrate(arguments: argparse.Namespace) -> int:
    with _database(_settings(arguments)) as url:
        before, after = migrate(url)
    if arguments.json:
        print(json.dumps({"from": before, "to": after}))
    elif before == after:
        print(f"The schema is at revision {after} already.")
    else:
        print(f"The schema is at revision {after} now; it was " + (f"at {before}." if before else "empty."))
    return DONE


def _check(arguments: argparse.Namespace) -> int:
    with _database(_settings(arguments)) as url:
        database = Database(url, pool_size=1)
        try:
            with database.read() as connection:
                verify_schema(connection)
            results = check(database)
        finally:
            database.close()
    violations = sum(result.violations for result in results)
    if arguments.json:
        print(json.dumps({"violations": violations, "laws": [result._asdict() for result in results]}))
    else:
        _show(results, violations)
    return VIOLATED if violations else DONE


def _show(results: Sequence[LawResult], violations: int) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        # A pipe gets each law on a line of its own.
        console.width = PIPE_WIDTH
    table = Table("law", "", "checked", "violations", box=None)
    for column in table.columns[2:]:
        column.justify = "right"
    for result in results:
        style = "bold red" if result.violations else None
        table.add_row(result.law, result.title, f"{result.checked:,}", f"{result.violations:,}", style=style)
    console.print(table)
    for result in results:
        for example in result.examples:
            console.print(f"{result.law}: {example}", markup=False, style="red", soft_wrap=True)
    if violations:
        console.print(
            f"\n{violations:,} violations. Stop writing to these books, and keep a copy of the database as it is now.",
            style="bold red",
        )
    else:
        console.print("\nEvery law holds.", style="green")


def _token(arguments: argparse.Namespace) -> int:
    path = settings.load(tokens_file=arguments.tokens_file).tokens_file
    who = {"tenant": arguments.tenant, "actor": arguments.actor}
    token = tokens.add(path, **who, role=Role(arguments.role), now=datetime.now(UTC))
    if arguments.json:
        print(json.dumps({"token": token, **who, "role": arguments.role, "tokens_file": str(path)}))
    else:
        print(f"Its hash was added to {path}. The token is shown this once:", file=sys.stderr)
        print(token)
    return DONE


def _play(name: str, *arguments: str) -> int:
    # They bring a web server and a client, which nothing else needs.
    if name == "demo":
        from ledger.demo.run import main as play  # noqa: PLC0415 - see above
    else:
        from ledger.exercise.run import main as play  # noqa: PLC0415 - see above

    return play(arguments)


def _settings(arguments: argparse.Namespace, **given: object) -> Settings:
    chosen = settings.load(data_dir=arguments.data_dir, **given)
    if arguments.data_dir is not None and chosen.database_url is not None:
        raise SettingsError(
            "--data-dir is for a PostgreSQL of our own, and a database URL is set: leave out one, or unset DATABASE_URL and "
            f"{settings.PREFIX}DATABASE_URL."
        )
    return chosen


@contextmanager
def _database(chosen: Settings) -> Iterator[str]:
    """The URL of the database that is set, or of our own, which runs until the block ends."""
    if chosen.database_url is not None:
        yield chosen.database_url.get_secret_value()
        return
    with LocalPostgres(chosen.data_dir) as server:
        yield server.url
