"""Requests about holds, to commands. On the hot path: a command of a batch costs a few microseconds here."""

import logging
from collections.abc import Callable
from typing import Any, Final

from ledger.domain.cards import GROUPS, MAX_QUANTITY, STANDARD_TIER
from ledger.domain.commands import (
    BeginDispatch,
    Correct,
    Dispatch,
    HoldCommand,
    MarkOutcomeUnknown,
    NoCostProof,
    Release,
    Reserve,
    Resolve,
    Usage,
)
from ledger.domain.model import Caller
from ledger.domain.money import ZERO
from ledger.domain.quotes import QuoteKind, QuoteSpec
from ledger.domain.refusals import Reason, Refusal
from ledger.service.access import HOLDS, denied
from ledger.service.translate import attempts
from ledger.service.translate.evidence import no_cost_proof, usage
from ledger.service.translate.fields import (
    DEFAULT_SPAN,
    LEAST_NONCE,
    LEAST_SPAN,
    MAX_BUDGETS,
    MAX_INT32,
    MOST_SPAN,
    InvalidField,
    amount,
    digest,
    duration,
    empty_or_identifier,
    entries,
    identifier,
    labels,
    lease,
    money,
    number,
    optional_identifier,
    text,
)
from ledger.v1 import hold_pb2 as pb

log = logging.getLogger("ledger.service")

MAX_COMMANDS = 1000
_GROUPS = frozenset(GROUPS)
_UNREAD = Refusal(Reason.INTERNAL, "A fault of the server; nothing was done. Its log says more.")

MAX_CHOICES = 1000


def reserve(request: pb.ReserveRequest, caller: Caller) -> Reserve:
    budget_ids = tuple(request.budget_ids)
    if not 1 <= len(budget_ids) <= MAX_BUDGETS:
        raise InvalidField("budget_ids", f"must name 1 to {MAX_BUDGETS} budgets")
    for budget_id in budget_ids:
        identifier(budget_id, "budget_ids")
    if len(budget_ids) > 1 and len(set(budget_ids)) != len(budget_ids):
        raise InvalidField("budget_ids", "must not name a budget twice")
    if request.begin_dispatch != request.HasField("dispatch"):
        raise InvalidField("dispatch", "must be given with begin_dispatch, and only with it")
    return Reserve(
        caller,
        identifier(request.idempotency_key, "idempotency_key"),
        identifier(request.operation_id, "operation_id"),
        budget_ids,
        quote_spec(request.quote),
        duration(request.ttl, "ttl", LEAST_SPAN, MOST_SPAN) if request.HasField("ttl") else DEFAULT_SPAN,
        labels(request.labels),
        optional_identifier(request.exclusive_key, "exclusive_key"),
        optional_identifier(request.request_group, "request_group"),
        _dispatch(request.dispatch) if request.begin_dispatch else None,
    )


def begin_dispatch(request: pb.BeginDispatchRequest, caller: Caller) -> BeginDispatch:
    return BeginDispatch(
        caller,
        identifier(request.idempotency_key, "idempotency_key"),
        identifier(request.operation_id, "operation_id"),
        _dispatch(request.dispatch),
    )


def mark_outcome_unknown(request: pb.MarkOutcomeUnknownRequest, caller: Caller) -> MarkOutcomeUnknown:
    return MarkOutcomeUnknown(
        caller,
        identifier(request.idempotency_key, "idempotency_key"),
        identifier(request.operation_id, "operation_id"),
        text(request.observation, "observation"),
    )


def release(request: pb.ReleaseRequest, caller: Caller) -> Release:
    return Release(
        caller,
        identifier(request.idempotency_key, "idempotency_key"),
        identifier(request.operation_id, "operation_id"),
    )


def resolve(request: pb.ResolveRequest, caller: Caller) -> Resolve:
    evidence = _evidence(request)
    return Resolve(
        caller,
        identifier(request.idempotency_key, "idempotency_key"),
        identifier(request.operation_id, "operation_id"),
        evidence,
        number(request.attempt, "attempt", 0, MAX_INT32),
        text(request.accept_overrun_reason, "accept_overrun_reason"),
    )


def correct(request: pb.CorrectRequest, caller: Caller) -> Correct:
    return Correct(
        caller,
        identifier(request.idempotency_key, "idempotency_key"),
        identifier(request.operation_id, "operation_id"),
        digest(request.digest_in_force, "digest_in_force"),
        _evidence(request),
        text(request.reason, "reason", least=1),
        number(request.attempt, "attempt", 0, MAX_INT32),
        text(request.accept_overrun_reason, "accept_overrun_reason"),
    )


def _evidence(request: pb.ResolveRequest | pb.CorrectRequest) -> Usage | NoCostProof:
    kind = request.WhichOneof("evidence")
    if kind is None:
        raise InvalidField("evidence", "must be given: usage or no_cost")
    return usage(request.usage) if kind == "usage" else no_cost_proof(request.no_cost)


_READERS: Final[dict[str, tuple[str, Callable[[Any, Caller], HoldCommand]]]] = {
    "reserve": (HOLDS + "Reserve", reserve),
    "begin_dispatch": (HOLDS + "BeginDispatch", begin_dispatch),
    "mark_outcome_unknown": (HOLDS + "MarkOutcomeUnknown", mark_outcome_unknown),
    "release": (HOLDS + "Release", release),
    "resolve": (HOLDS + "Resolve", resolve),
    "correct": (HOLDS + "Correct", correct),
    "heartbeat": (HOLDS + "Heartbeat", attempts.heartbeat),
    "record_failed_before_dispatch": (HOLDS + "RecordFailedBeforeDispatch", attempts.record_failed_before_dispatch),
    "cancel": (HOLDS + "Cancel", attempts.cancel),
    "record_receipt": (HOLDS + "RecordReceipt", attempts.record_receipt),
    "record_delivery": (HOLDS + "RecordDelivery", attempts.record_delivery),
}


def batch(request: pb.BatchExecuteRequest, caller: Caller) -> tuple[list[str], list[HoldCommand | Refusal]]:
    """The commands of a batch, each with its name in the oneof. One that is malformed, or that the caller may not send, is its
    own refusal; a batch of the wrong size is refused whole."""
    count = len(request.commands)
    if not 1 <= count <= MAX_COMMANDS:
        raise InvalidField("commands", f"must be 1 to {MAX_COMMANDS}")
    forbidden = {name: denied(method, caller) for name, (method, _) in _READERS.items()}
    names: list[str] = []
    commands: list[HoldCommand | Refusal] = []
    for index, item in enumerate(request.commands):
        name = item.WhichOneof("command") or ""
        names.append(name)
        if not name:
            commands.append(InvalidField(f"commands[{index}].command", "must be given").refusal)
        elif (refusal := forbidden[name]) is not None:
            commands.append(refusal)
        else:
            try:
                commands.append(_READERS[name][1](getattr(item, name), caller))
            except InvalidField as invalid:
                path = f"commands[{index}].{name}.{invalid.path}"
                commands.append(InvalidField(path, invalid.rule).refusal)
            except Exception:
                # A fault of ours in one command must not touch its neighbours.
                log.exception("a command of a batch could not be read", extra={"method": _READERS[name][0]})
                commands.append(_UNREAD)
    return names, commands


def _dispatch(message: pb.Dispatch) -> Dispatch:
    return Dispatch(
        text(message.nonce, "dispatch.nonce", least=LEAST_NONCE),
        lease(message, "dispatch.lease"),
        text(message.executor, "dispatch.executor"),
    )


def quote_spec(message: pb.QuoteSpec) -> QuoteSpec:
    kind = message.WhichOneof("kind")
    tolerance = amount(message.tolerance, "quote.tolerance") if message.tolerance else ZERO
    if kind == "metered":
        metered = message.metered
        return QuoteSpec(
            QuoteKind.METERED,
            tolerance,
            card_id=identifier(metered.card_id, "quote.metered.card_id"),
            card_version=number(metered.card_version, "quote.metered.card_version", 0, MAX_INT32),
            model=empty_or_identifier(metered.model, "quote.metered.model"),
            service_tier=empty_or_identifier(metered.service_tier, "quote.metered.service_tier") or STANDARD_TIER,
            region=empty_or_identifier(metered.region, "quote.metered.region"),
            api_flavor=empty_or_identifier(metered.api_flavor, "quote.metered.api_flavor"),
            ceilings=_ceilings(metered),
            choices=number(metered.choices, "quote.metered.choices", 0, MAX_CHOICES) or 1,
        )
    if kind == "fixed":
        fixed = message.fixed
        charged, unit = money(fixed.amount, "quote.fixed.amount")
        return QuoteSpec(
            QuoteKind.FIXED,
            tolerance,
            amount=charged,
            currency=unit,
            provider=identifier(fixed.provider, "quote.fixed.provider"),
            model=empty_or_identifier(fixed.model, "quote.fixed.model"),
            reason=text(fixed.reason, "quote.fixed.reason", least=1),
        )
    raise InvalidField("quote.kind", "must be given: metered or fixed")


def _ceilings(metered: pb.MeteredQuote) -> tuple[tuple[str, int], ...]:
    ceilings = entries(metered.ceilings)
    for group, ceiling in ceilings:
        if group not in _GROUPS:
            raise InvalidField("quote.metered.ceilings", f"must be of the groups {', '.join(GROUPS)}")
        if not 0 <= ceiling <= MAX_QUANTITY:
            raise InvalidField(f"quote.metered.ceilings[{group}]", f"must be 0 to {MAX_QUANTITY}")
    return ceilings
