"""The budgets and price cards of the demo, and what a call may cost at most under them."""

from collections.abc import Mapping
from typing import Any

from ledger.client import Client
from ledger.demo import replies
from ledger.v1 import budget_pb2, price_pb2

CURRENCY = "USD"
# (budget, its parent, its limit; None is unlimited)
BUDGETS: tuple[tuple[str, str, str | None], ...] = (
    ("acme", "", "100"),
    ("acme-support", "acme", "1"),
    ("acme-replays", "acme", "50"),
)
# What the provider's two models cost, in USD per million tokens.
RATES: Mapping[str, Mapping[str, str]] = {
    replies.OPENAI_MODEL: {"input_tokens": "2.5", "cache_read_tokens": "1.25", "output_tokens": "10"},
    replies.ANTHROPIC_MODEL: {
        "input_tokens": "3",
        "cache_read_tokens": "0.3",
        "cache_write_tokens": "3.75",
        "cache_write_1h_tokens": "6",
        "output_tokens": "15",
    },
}
PROVIDERS = {replies.OPENAI_MODEL: "openai", replies.ANTHROPIC_MODEL: "anthropic"}


async def open_books(admin: Client) -> None:
    """Makes the budgets and the cards of the story."""
    for budget_id, parent_id, limit in BUDGETS:
        await admin.budgets.CreateBudget(
            budget_pb2.CreateBudgetRequest(
                idempotency_key=f"open/{budget_id}",
                budget_id=budget_id,
                parent_id=parent_id,
                currency=CURRENCY,
                display_name=budget_id,
                limit=limit,
            )
        )
    for model, rates in RATES.items():
        card = price_pb2.PriceCard(
            card_id=model,
            provider=PROVIDERS[model],
            model=model,
            currency=CURRENCY,
            rates=[price_pb2.Rate(bucket=bucket, price=price) for bucket, price in rates.items()],
        )
        await admin.prices.PutPriceCard(price_pb2.PutPriceCardRequest(idempotency_key=f"card/{model}", card=card))


async def put_card(admin: Client, card_id: str, document: Mapping[str, Any]) -> None:
    """Puts a card that was made from a catalogue, without its dates: the calls that are replayed under it were made then."""
    card = price_pb2.PriceCard(
        card_id=card_id,
        provider=document["provider"],
        model=document["model"],
        aliases=document["aliases"],
        currency=document["currency"],
        rates=[
            price_pb2.Rate(
                bucket=rate["bucket"],
                service_tier=rate["tier"],
                above_input_tokens=int(rate["above"]),
                price=rate["price"],
                per=int(rate["per"]),
            )
            for rate in document["rates"]
        ],
        max_input_tokens=int(document["max_input_tokens"] or 0),
        max_output_tokens=int(document["max_output_tokens"] or 0),
    )
    await admin.prices.PutPriceCard(price_pb2.PutPriceCardRequest(idempotency_key=f"card/{card_id}", card=card))
