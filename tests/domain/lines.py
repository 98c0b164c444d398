"""The lines of a table that are commands: who asks, under which key, the words after the command, and its options."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from ledger.domain.attempt_commands import (
    Cancel,
    Heartbeat,
    RecordDelivery,
    RecordFailedBeforeDispatch,
    RecordReceipt,
)
from ledger.domain.budget_commands import CloseBudget, MoveBudget, UpdateBudget
from ledger.domain.cards import PriceCard, Rate
from ledger.domain.claims import Claim
from ledger.domain.commands import (
    BeginDispatch,
    Command,
    Correct,
    CreateBudget,
    Dispatch,
    GrantBudget,
    Lapse,
    MarkOutcomeUnknown,
    NoCostProof,
    Release,
    Reserve,
    Resolve,
    Usage,
    VerifyWrite,
)
from ledger.domain.document_commands import PutEvidencePolicy, PutPriceCard
from ledger.domain.model import Caller, Classification, Delivery, Role
from ledger.domain.money import parse_amount, parse_price
from ledger.domain.periods import PeriodKind, Rollover, RolloverKind, Schedule
from ledger.domain.policies import EvidencePolicy, Rule
from ledger.domain.quotes import QuoteKind, QuoteSpec
from ledger.domain.thresholds import Basis, Thresholds
from tests.domain.checks import SHORT
from tests.domain.world import World

ROLES = {"gw": Role.GATEWAY, "fin": Role.FINANCE, "adm": Role.ADMIN, "sys": Role.SYSTEM}
SPANS = {"s": timedelta(seconds=1), "m": timedelta(minutes=1), "h": timedelta(hours=1)}
STANDINGS = {"~": Classification.CORROBORATING, "?": Classification.ESTIMATE}
Options = dict[str, str]


def span(text: str) -> timedelta:
    """15m"""
    return int(text[:-1]) * SPANS[text[-1]]


def _dispatch(options: Options) -> Dispatch | None:
    nonce = options.pop("nonce", None)
    if nonce is None:
        return None
    return Dispatch(nonce, span(options.pop("lease", "15m")), options.pop("executor", "host-1"))


def _quantities(options: Options) -> tuple[tuple[str, int], ...]:
    return tuple((SHORT[name], int(options.pop(name))) for name in tuple(options) if name in SHORT)


def reserve(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    operation, budgets, *amount = words
    tolerance = parse_amount(options.pop("tolerance", "0"))
    if amount:
        spec = QuoteSpec(
            QuoteKind.FIXED,
            tolerance,
            amount=parse_amount(amount[0]),
            currency=options.pop("currency", "USD"),
            provider=options.pop("provider", "acme"),
            model=options.pop("model", "refunds"),
            reason=options.pop("reason", "a price agreed on"),
        )
    else:
        card, _, version = options.pop("card").partition("/")
        spec = QuoteSpec(
            QuoteKind.METERED,
            tolerance,
            card_id=card,
            card_version=int(version or 0),
            model=options.pop("model", ""),
            service_tier=options.pop("tier", "standard"),
            ceilings=_quantities(options),
        )
    labels = tuple(tuple(pair.split(":")) for pair in options.pop("labels", "").split(",") if pair)
    return Reserve(
        caller, key, operation, tuple(budgets.split(",")), spec, span(options.pop("ttl", "15m")),
        labels=labels,  # type: ignore[arg-type]  # each is name:value
        exclusive_key=options.pop("exclusive", None),
        request_group=options.pop("group", None),
        dispatch=_dispatch(options),
    )  # fmt: skip


def dispatch(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    permission = _dispatch(options)
    assert permission is not None, "a dispatch has a nonce"
    return BeginDispatch(caller, key, words[0], permission)


def _usage(words: list[str], options: Options) -> Usage:
    """`usage OP in=… out=…` for tokens, `charge OP 5` for the amount of a FIXED quote."""
    return Usage(
        source=options.pop("source", "PROVIDER_RESPONSE"),
        provider=options.pop("provider", "acme"),
        model=options.pop("model", ""),
        service_tier=options.pop("tier", ""),
        adapter=options.pop("adapter", "sdk"),
        adapter_revision=options.pop("revision", "7"),
        document=options.pop("document", ""),
        flavor=options.pop("flavor", ""),
        defects=tuple(d for d in options.pop("defects", "").split(",") if d),
        provider_receipt=options.pop("receipt", None),
        read_model=options.pop("read_model", ""),
        read_tier=options.pop("read_tier", ""),
        response_id=options.pop("response", ""),
        observed_at=_instant(options.pop("observed", "")),
        charged=parse_amount(words[0]) if words else None,
        charged_currency=options.pop("currency", "USD") if words else "",
        buckets=_quantities(options),
    )


def _proof(words: list[str], options: Options) -> NoCostProof:
    """`proof OP NEVER_SENT cause=DNS_FAILURE`"""
    return NoCostProof(
        words[0],
        "sdk",
        "7",
        cause=options.pop("cause", ""),
        provider_status=int(options.pop("status", 0)),
        provider_request_id=options.pop("request", ""),
        nonce=options.pop("nonce", ""),
    )


EVIDENCE: Mapping[str, Callable[[list[str], Options], Usage | NoCostProof]] = {
    "usage": _usage,
    "charge": _usage,
    "proof": _proof,
}


def _resolve(what: str) -> Callable[[Caller, str, list[str], Options], Command]:
    def resolve(caller: Caller, key: str, words: list[str], options: Options) -> Command:
        attempt, accept = int(options.pop("attempt", 0)), options.pop("accept", "")
        return Resolve(caller, key, words[0], EVIDENCE[what](words[1:], options), attempt, accept)

    return resolve


def correct(world: World, caller: Caller, key: str, words: list[str], options: Options) -> Command:
    """`correct OP charge 5`, `correct OP proof NEVER_SENT …`: of what is in force, or of revision `of=1`, or of none (`of=0`)."""
    operation, what, *rest = words
    digests = [
        b"-" * 32,
        *(r.digest for r in world.resolutions if (r.tenant, r.operation_id) == (caller.tenant, operation)),
    ]
    of = digests[int(options.pop("of", -1))]
    reason, attempt, accept = options.pop("reason", "a bill"), int(options.pop("attempt", 0)), options.pop("accept", "")
    return Correct(caller, key, operation, of, EVIDENCE[what](rest, options), reason, attempt, accept)


def heartbeat(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    """`heartbeat op1 nonce=n1 lease=15m`"""
    return Heartbeat(caller, key, words[0], options.pop("nonce"), span(options.pop("lease", "15m")))


def failed(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    """`failed op1 nonce=n1`: nothing was sent"""
    attempt = int(options.pop("attempt", 0))
    cause = options.pop("cause", "DNS_FAILURE")
    return RecordFailedBeforeDispatch(caller, key, words[0], options.pop("nonce"), cause, "sdk", "7", attempt)


def receipt(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    """`receipt op1 r1`"""
    operation, provider_receipt = words
    attempt = int(options.pop("attempt", 0))
    return RecordReceipt(caller, key, operation, options.pop("provider", "acme"), provider_receipt, attempt, "sdk", "7")


def delivery(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    """`delivery op1 PARTIAL`"""
    return RecordDelivery(caller, key, words[0], Delivery(words[1]), int(options.pop("attempt", 0)), "sdk", "7")


def claim(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    """`claim op1 state=SETTLED amount=5 settled=4 budgets=org,team digest=ab receipt=r1 operation=op1`"""
    budgets = options.pop("budgets", None)
    believed = Claim(
        operation_id=options.pop("operation", None),
        state=options.pop("state", None),
        amount=_believed(options.pop("amount", None)),
        settled=_believed(options.pop("settled", None)),
        budget_ids=None if budgets is None else frozenset(budgets.split(",")),
        digest=bytes.fromhex(options.pop("digest", "")) or None,
        provider_receipt=options.pop("receipt", None),
    )
    return VerifyWrite(caller, key, words[0], believed)


def _believed(amount: str | None) -> tuple[Decimal, str] | None:
    return None if amount is None else (Decimal(amount), "USD")


def budget(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    budget_id, currency, options["limit"] = words
    options.setdefault("name", budget_id)
    return CreateBudget(caller, key, budget_id, options.pop("under", None), currency, **_settings(options))


def update(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    changes = _settings(options)
    return UpdateBudget(caller, key, words[0], tuple(sorted(changes)), **changes)


_SETTINGS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "max_hold": ("max_hold", parse_amount),
    "max_open": ("max_open_holds", int),
    "limit": ("limit", parse_amount),
    "credit": ("credit_line", parse_amount),
    "name": ("display_name", str),
    "rollover": ("rollover", lambda value: _rollover(*value.split(":"))),
    "thresholds": ("thresholds", lambda value: _thresholds(*value.split(":"))),
}


_NEVER_ABSENT = {"rollover", "thresholds"}


def _settings(options: Options) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for option, (name, kind) in _SETTINGS.items():
        if option in options:
            value = options.pop(option)
            changes[name] = None if value in ("none", "unlimited") and name not in _NEVER_ABSENT else kind(value)
    for kind_of_period in PeriodKind:
        if kind_of_period.lower() in options:
            changes["schedule"] = _schedule(kind_of_period, options.pop(kind_of_period.lower()), options)
    return changes


def _rollover(kind: str, cap: str = "") -> Rollover:
    return Rollover(RolloverKind(kind.upper()), parse_amount(cap) if cap else None)


def _thresholds(percents: str, basis: str = "used") -> Thresholds:
    """50,80 of what is used, 50,80:spent, or none"""
    return Thresholds(() if percents == "none" else tuple(map(int, percents.split(","))), Basis(basis.upper()))


def _schedule(kind: PeriodKind, value: str, options: Options) -> Schedule:
    anchor = options.pop("anchor", None)
    at = None if anchor is None else datetime.fromisoformat(anchor).astimezone(UTC)
    if kind is PeriodKind.FIXED:
        return Schedule(kind, anchor=at, length=span(value))
    return Schedule(kind, "" if kind is PeriodKind.NONE else value, at)


def move(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    return MoveBudget(caller, key, words[0], options.pop("under", None))


def grant(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    budget_id, amount = words
    return GrantBudget(
        caller, key, budget_id, Decimal(amount), options.pop("currency", "USD"), options.pop("ref", "invoice")
    )


def card(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    """`card gpt USD in=3 in>200000=6 out@priority=30 requests=5/1000`: price per million, tier, threshold, other units."""
    card_id, currency = words
    most_in, most_out = options.pop("max_in", None), options.pop("max_out", None)
    until, since = options.pop("until", ""), options.pop("from", "")
    provider, model = options.pop("provider", "acme"), options.pop("model", card_id)
    aliases = tuple(alias for alias in options.pop("aliases", "").split(",") if alias)
    rates = []
    for name in tuple(options):
        bucket, _, above = name.partition(">")
        bucket, _, tier = bucket.partition("@")
        price, _, per = options.pop(name).partition("/")
        rates.append(
            Rate(SHORT[bucket], tier or "standard", int(above or 0), parse_price(price), int(per or 1_000_000))
        )
    return PutPriceCard(
        caller,
        key,
        PriceCard(
            caller.tenant, card_id, 0, provider, model, aliases, currency, tuple(rates),
            None if most_in is None else int(most_in), None if most_out is None else int(most_out),
            _instant(since), _instant(until),
        ),
    )  # fmt: skip


def policy(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    """`policy acme gw:WEBHOOK fin:STATEMENT~ gw:PROVIDER_RECORD? gw:REJECTED_BEFORE_EXECUTION/429/529`: role and evidence, `~` for
    what corroborates, `?` for an estimate."""
    provider, *said = words
    rules = []
    for text in said:
        role, _, named = text.partition(":")
        evidence, *statuses = named.split("/")
        standing = STANDINGS.get(evidence[-1], Classification.AUTHORITATIVE)
        rules.append(Rule(evidence.rstrip("~?"), ROLES[role], standing, tuple(map(int, statuses))))
    return PutEvidencePolicy(caller, key, EvidencePolicy(caller.tenant, provider, 0, tuple(rules)))


def _instant(text: str) -> datetime | None:
    """A time of the day on which the tables play, such as 10:20."""
    return datetime.fromisoformat(f"2025-03-01T{text}:00+00:00") if text else None


def _simple(kind: Callable[..., Command], *more: Any) -> Callable[..., Command]:
    return lambda caller, key, words, _: kind(caller, key, words[0], *more)


COMMANDS: Mapping[str, Callable[[Caller, str, list[str], Options], Command]] = {
    "reserve": reserve,
    "dispatch": dispatch,
    "unknown": _simple(MarkOutcomeUnknown, "timeout"),
    "release": _simple(Release),
    "lapse": _simple(Lapse),
    "heartbeat": heartbeat,
    "failed": failed,
    "cancel": _simple(Cancel, "the user left"),
    "receipt": receipt,
    "delivery": delivery,
    "usage": _resolve("usage"),
    "charge": _resolve("charge"),
    "proof": _resolve("proof"),
    "claim": claim,
    "budget": budget,
    "update": update,
    "close": _simple(CloseBudget),
    "move": move,
    "grant": grant,
    "card": card,
    "policy": policy,
}
