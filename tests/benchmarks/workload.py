"""What the benchmark asks of the ledger: a call to a model, reserved by a price card and settled on its usage.

The messages are the contract's; nothing here knows the service.
"""

import json

from ledger.v1 import budget_pb2, hold_pb2, price_pb2

CURRENCY = "USD"
PROVIDER, MODEL, CARD = "openai", "gpt-5", "openai/gpt-5"
RATES = {"input_tokens": "1.25", "cache_read_tokens": "0.125", "output_tokens": "10"}
LABELS = {"cost_centre": "support", "project": "assistant"}
FLAVOR = "openai.chat"
ADAPTER, ADAPTER_REVISION, EXECUTOR = "gateway", "7", "gateway-1"
LIMIT = "1000000000"


def budget_id(number: int) -> str:
    return f"team-{number:04d}"


def create_budget(number: int, parent: int | None = None) -> budget_pb2.CreateBudgetRequest:
    name = budget_id(number)
    return budget_pb2.CreateBudgetRequest(
        idempotency_key=f"create-{name}",
        budget_id=name,
        parent_id="" if parent is None else budget_id(parent),
        currency=CURRENCY,
        display_name=name,
        limit=LIMIT,
    )


def put_price_card() -> price_pb2.PutPriceCardRequest:
    card = price_pb2.PriceCard(
        card_id=CARD,
        provider=PROVIDER,
        model=MODEL,
        currency=CURRENCY,
        rates=[price_pb2.Rate(bucket=bucket, price=price) for bucket, price in RATES.items()],
        max_input_tokens=272_000,
        max_output_tokens=128_000,
    )
    return price_pb2.PutPriceCardRequest(idempotency_key="put-card", card=card)


def ceilings(number: int) -> dict[str, int]:
    """The ceilings of an operation's quote. As in life, hardly two are equal, so nothing is gained by remembering one."""
    return {"input_tokens": 2_000 + 23 * (number % 9_973), "output_tokens": 4_000}


def usage(number: int) -> dict[str, int]:
    """What the provider reports: a prompt below its ceiling, half of it cached in steps of 128, and the completion."""
    prompt = ceilings(number)["input_tokens"] - number % 1_499
    cached = prompt // 256 * 128
    return {
        "input_tokens": prompt - cached,
        "cache_read_tokens": cached,
        "output_tokens": 100 + 31 * (number % 113),
    }


def quote(number: int) -> hold_pb2.QuoteSpec:
    metered = hold_pb2.MeteredQuote(card_id=CARD, card_version=1, model=MODEL, ceilings=ceilings(number))
    return hold_pb2.QuoteSpec(metered=metered)


def reserve(number: int, operation_id: str, budget: int) -> hold_pb2.ReserveRequest:
    return hold_pb2.ReserveRequest(
        idempotency_key=operation_id,
        operation_id=operation_id,
        budget_ids=[budget_id(budget)],
        quote=quote(number),
        labels=LABELS,
    )


def begin_dispatch(operation_id: str) -> hold_pb2.BeginDispatchRequest:
    return hold_pb2.BeginDispatchRequest(
        idempotency_key=operation_id,
        operation_id=operation_id,
        dispatch=hold_pb2.Dispatch(nonce=f"nonce-of-{operation_id}", executor=EXECUTOR),
    )


def resolve(number: int, operation_id: str, *, as_sent: bool = False) -> hold_pb2.ResolveRequest:
    """`as_sent`: the usage object of the provider's response, for the ledger to read, in place of the buckets."""
    evidence = hold_pb2.UsageEvidence(
        source=hold_pb2.EVIDENCE_SOURCE_PROVIDER_RESPONSE,
        provider=PROVIDER,
        model=MODEL,
        adapter=ADAPTER,
        adapter_revision=ADAPTER_REVISION,
        provider_receipt=f"resp-{operation_id}",
    )
    if as_sent:
        evidence.provider_usage.api_flavor = FLAVOR
        evidence.provider_usage.json = document(number)
    else:
        evidence.buckets.quantities.update(usage(number))
    return hold_pb2.ResolveRequest(idempotency_key=operation_id, operation_id=operation_id, usage=evidence)


def document(number: int) -> str:
    """The same usage as a chat completion says it."""
    used = usage(number)
    prompt, completion = used["input_tokens"] + used["cache_read_tokens"], used["output_tokens"]
    return json.dumps(
        {
            "model": MODEL,
            "service_tier": "default",
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
                "prompt_tokens_details": {"cached_tokens": used["cache_read_tokens"], "audio_tokens": 0},
                "completion_tokens_details": {
                    "reasoning_tokens": 0,
                    "audio_tokens": 0,
                    "accepted_prediction_tokens": 0,
                    "rejected_prediction_tokens": 0,
                },
            },
        }
    )


def operations(prefix: str, batch: int, size: int) -> dict[int, str]:
    """The operations of a batch, in their order: their numbers and names."""
    return {number: operation_id(prefix, number) for number in range(batch * size, (batch + 1) * size)}


def operation_id(prefix: str, number: int) -> str:
    return f"{prefix}-{number:08d}"


def batches(operations: dict[int, str], budget: int = 0) -> list[hold_pb2.BatchExecuteRequest]:
    """The three calls that take operations, all of one budget, through their lives."""
    command = hold_pb2.Command
    steps = (
        [command(reserve=reserve(number, name, budget)) for number, name in operations.items()],
        [command(begin_dispatch=begin_dispatch(name)) for name in operations.values()],
        [command(resolve=resolve(number, name)) for number, name in operations.items()],
    )
    return [hold_pb2.BatchExecuteRequest(commands=commands) for commands in steps]


def dispatched(operations: dict[int, str]) -> hold_pb2.BatchExecuteRequest:
    """The call that reserves operations and dispatches them at once."""
    commands = []
    for number, name in operations.items():
        request = reserve(number, name, 0)
        request.begin_dispatch = True
        request.dispatch.CopyFrom(begin_dispatch(name).dispatch)
        commands.append(hold_pb2.Command(reserve=request))
    return hold_pb2.BatchExecuteRequest(commands=commands)


def resolved(operations: dict[int, str], *, as_sent: bool) -> hold_pb2.BatchExecuteRequest:
    """The call that settles them."""
    return hold_pb2.BatchExecuteRequest(
        commands=[
            hold_pb2.Command(resolve=resolve(number, name, as_sent=as_sent)) for number, name in operations.items()
        ]
    )
