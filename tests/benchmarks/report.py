"""The run in words: the machine, the method, the figures with their ranges, and where the time goes."""

import os
import platform
from pathlib import Path

from tests.benchmarks.figures import RATIOS, Notes
from tests.benchmarks.trials import Plan

UNITS = {
    "noop_unary_rps": "RPCs/s: empty call (grpc.health.v1.Health/Check)",
    "unary_rps": "RPCs/s: Reserve, BeginDispatch, Resolve",
    "unary_over_noop": "",
    "unary_median_ms": "ms: one of the three calls",
    "unary_p99_ms": "ms",
    "batch_lifecycles_per_s": "lifecycles/s: one server, one caller",
    "raw_sql_lifecycles_per_s": "lifecycles/s: the same rows by SQL",
    "batch_over_raw": "",
    "batch_two_servers_lifecycles_per_s": "lifecycles/s: two servers, two callers",
    "batch_two_servers_over_raw": "",
    "hot_rps": "RPCs/s: one budget, two servers",
    "spread_rps": "RPCs/s: many budgets, two servers",
    "hot_over_spread": "",
    "coalesced_lifecycles_per_s": "lifecycles/s: guarded calls of the SDK, coalesced",
    "alone_lifecycles_per_s": "lifecycles/s: the same, each command in its own RPC",
    "coalesced_over_alone": "",
    "guarded_lifecycle_ms": "ms: a guarded lifecycle",
    "raw_lifecycle_ms": "ms: the three calls by the bare stubs",
    "guarded_over_raw": "",
    "one_level_lifecycles_per_s": "lifecycles/s: batches on a budget alone",
    "four_levels_lifecycles_per_s": "lifecycles/s: batches on a budget below three others",
    "four_levels_over_one": "",
    "young_lifecycles_per_s": "lifecycles/s: batches, before the past",
    "grown_lifecycles_per_s": "lifecycles/s: the same, after it",
    "grown_over_young": "",
    "young_read_median_ms": "ms: GetBudget, before the past",
    "grown_read_median_ms": "ms: GetBudget, after it",
    "read_grown_over_young": "",
    "resolves_as_sent_per_s": "Resolves/s: the provider's usage object, read by the ledger",
    "resolves_in_buckets_per_s": "Resolves/s: the same usage in buckets",
    "as_sent_over_buckets": "",
}


def machine(postgres_version: str, fsync_ms: float) -> str:
    return (
        f"{os.cpu_count()} cores ({_processor()}) for the load, the servers and PostgreSQL together; "
        f"PostgreSQL {postgres_version} with its default settings (fsync on), Python {platform.python_version()}; "
        f"a durable write of 8 KiB takes {fsync_ms:.2f} ms; load average {os.getloadavg()[0]:.1f} before"
    )


def method(plan: Plan) -> str:
    return f"""\
Method
  {plan.trials} trials. Each starts one fresh server process, and then two, on fresh copies of one prepared database
  ({plan.spread:,} budgets, one price card) on one PostgreSQL server, after a CHECKPOINT. The load is a process of its own
  (grpc.aio, one connection to each server). A lifecycle is Reserve (a METERED quote of a price card, two labels, one budget),
  BeginDispatch, and Resolve (usage in three buckets); each operation has its own ceilings and its own usage.
  Unary: {plan.callers} callers, each waiting for the durable commit of a call before its next; the calls that end within
  {plan.seconds:g} s are counted, after {plan.warmup:g} s of warming up. The empty call goes to the same server process, from
  the same callers, with the same metadata.
  Batch: one caller, one budget; {plan.count} batches of {plan.size} lifecycles after {plan.warmup_count} others, each batch three
  calls one after the other: reserve, dispatch, settle. Requests are built before the clock starts. With two servers there are
  two callers, and each batch has a budget of its own.
  SQL: the same rows into the same tables of the same database, with their indexes, constraints and triggers, by set-based
  statements on one connection, without any rule; {plan.size} lifecycles in three transactions of one round trip each; values
  are made before the clock starts, when no server runs. Both sides must have written equally many rows into each table.
  Hot and spread: the unary load over two server processes, on one budget or on {plan.spread:,} in turn.
  Client: guarded lifecycles of the SDK in one process on one server and one budget, a provider that answers at once.
  {plan.crowd} callers, with the client's own coalescing, and with batches of one command and as many on the wire as there are
  callers. {plan.callers} callers, beside as many that make the three calls by the bare stubs; the wall time of a lifecycle is
  the number of callers over the rate. Who goes first takes turns.
  Levels: the batch load on a budget alone, and on one that has three above it; both post EXPENSE and PAYABLE.
  Past (only when asked for): the batch load and GetBudget, before and after {plan.past:,} settled holds of one level were made
  by the engine in the same database.
  Evidence: one caller, one budget; {plan.count} batches of {plan.size} Resolve after {plan.warmup_count} others, of holds that
  were dispatched before the clock started: once on the usage object of a chat completion as the provider sent it, and once on
  the same usage in buckets, on the same server process, a few batches in turn; who goes first takes turns.
  Memory is the peak of the server process (VmHWM). Mismatches are violations of any law, recomputed from the rows of every
  database that a server wrote to. Figures are medians of the trials with their range; a ratio is taken within each trial."""


def figures(notes: Notes) -> str:
    found = notes.figures()
    lines = [f"{'Figures':38}{'median':>8}   range"]
    for name, unit in UNITS.items():
        if name not in found:
            continue
        figure = found[name]
        digits = 2 if name in RATIOS else 1 if figure.median < 100 else 0
        low, high = f"{figure.low:,.{digits}f}", f"{figure.high:,.{digits}f}"
        lines.append(f"  {name:36}{figure.median:>8,.{digits}f}   {low + ' … ' + high:20} {unit}".rstrip())
    lines.append(
        f"  {'server_peak_rss_mb':36}{notes.highest('server_peak_rss_mb'):>8,.0f}   the most of any server process"
    )
    lines.append(f"  {'ledger_mismatches':36}{notes.total('mismatches'):>8}")
    return "\n".join(lines)


def breakdown(parts: dict[int, dict[str, float]], noop_rps: float) -> str:
    """`parts` gives, for batches of a size, the microseconds of each step of a lifecycle."""
    sizes = list(parts)
    lines = ["Where the time of one lifecycle goes (µs; the engine alone, in one process)"]
    lines.append(f"  {'lifecycles in a batch':26}" + "".join(f"{size:>10,}" for size in sizes))
    steps = next(iter(parts.values()))
    lines += [f"  {step:26}" + "".join(f"{parts[size][step]:>10,.0f}" for size in sizes) for step in steps]
    lines.append(f"  {'sum':26}" + "".join(f"{sum(parts[size].values()):>10,.0f}" for size in sizes))
    lines.append(f"  Beside it: three empty calls, client and server together, take {3e6 / noop_rps:,.0f} µs.")
    return "\n".join(lines)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
