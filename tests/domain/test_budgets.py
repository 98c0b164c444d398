"""Budgets, grants and price cards."""

from tests.domain.table import run


def test_a_budget_is_created_once_and_a_difference_is_named() -> None:
    world = run("""
    adm: budget org USD 10 key=k1 -> ok
    adm: budget org USD 10 key=k1 -> unchanged replayed
    adm: budget org USD 10 key=k2 -> unchanged replayed
    adm: budget org USD 11 key=k1 -> IDEMPOTENCY_MISMATCH resource=org
    adm: budget org USD 11 -> RESOURCE_EXISTS budget_id=org field=limit
    adm: budget org USD unlimited -> RESOURCE_EXISTS field=limit
    adm: budget org EUR 10 -> RESOURCE_EXISTS field=currency
    adm: budget org USD 10 name=Other -> RESOURCE_EXISTS field=display_name
    adm: budget top USD 10 -> ok
    adm: budget org USD 10 under=top -> RESOURCE_EXISTS field=parent_id
    balance org authority=10 available=10 version=2
    """)
    assert [entry.kind for entry in world.entries.values()] == ["OPEN", "OPEN"]


def test_a_budget_has_its_limit_as_authority_and_no_limit_is_no_entry() -> None:
    run("""
    adm: budget some USD 10 -> ok
    adm: budget none USD 0 -> ok
    adm: budget all USD unlimited -> ok
    balance some authority=10 available=10 floor=0 version=2
    balance none authority=0 available=0 floor=0 version=0
    balance all authority=0 available=0 floor=none version=0
    """)


def test_a_parent_must_be_there_and_have_the_same_currency() -> None:
    run("""
    adm: budget team USD 5 under=org key=k1 -> NOT_FOUND field=parent_id says=org
    adm: budget org EUR 10 -> ok
    adm: budget team USD 5 under=org -> CURRENCY_MISMATCH field=currency budget_currency=EUR currency=USD
    adm: budget team EUR 5 under=org key=k1 -> ok            # a refusal of a budget is not remembered
    """)


def test_a_tree_has_at_most_eight_levels() -> None:
    chain = "adm: budget l1 USD 1 -> ok\n" + "\n".join(
        f"adm: budget l{level} USD 1 under=l{level - 1} -> ok" for level in range(2, 9)
    )
    run(
        chain
        + """
    adm: budget l9 USD 1 under=l8 -> INVALID_FIELD field=parent_id says="at most 8 levels"
    reserve op1 l8 1 -> ok
    hold op1 RESERVED books=l1#0,l2#0,l3#0,l4#0,l5#0,l6#0,l7#0,l8#0
    """
    )


def test_a_tree_may_be_made_and_used_in_one_batch() -> None:
    run("""
    adm: budget org USD 10 -> ok
    | adm: budget team USD 5 under=org -> ok
    | adm: budget team USD 5 under=org -> unchanged replayed
    | adm: budget team USD 6 under=org -> RESOURCE_EXISTS field=limit
    | adm: grant team 1 -> ok
    | reserve op1 team 6 -> ok
    balance org available=4 held=6
    balance team authority=6 available=0 held=6
    """)


def test_a_grant_adds_to_one_budget_in_its_currency() -> None:
    run("""
    adm: grant org 5 key=k1 -> NOT_FOUND field=budget_id says=org
    adm: budget org USD 10 -> ok
    adm: budget team USD 5 under=org -> ok
    adm: grant org 5 key=k1 -> ok                              # what was not there was not remembered
    adm: grant org 5 currency=EUR -> CURRENCY_MISMATCH field=amount.currency budget_currency=USD
    balance org authority=15 available=15
    balance team authority=5 available=5
    adm: budget all USD unlimited -> ok
    adm: grant all 5 -> ok
    balance all authority=5 available=5
    """)


def test_a_reference_is_unique_per_budget() -> None:
    world = run("""
    adm: budget a USD 1 -> ok
    adm: budget b USD 1 -> ok
    adm: grant a 5 ref=invoice-1 -> ok
    adm: grant b 7 ref=invoice-1 -> ok
    """)
    assert {key: grant.amount for key, grant in world.grants.items()} == {
        ("t1", "a", "invoice-1"): 5,
        ("t1", "b", "invoice-1"): 7,
    }


def test_a_card_gets_a_version_for_each_new_content() -> None:
    world = run("""
    adm: card gpt USD in=3 out=15 key=k1 -> ok
    adm: card gpt USD in=3 out=15 key=k1 -> unchanged replayed
    adm: card gpt USD in=3 out=15 key=k2 -> unchanged
    adm: card gpt USD in=0.000003e6 out=15.0 -> unchanged      # the same prices, written otherwise
    adm: card gpt USD out=15 in=3 -> unchanged                 # in another order
    adm: card gpt USD in=3 out=16 -> ok
    | adm: card gpt USD in=3 out=17 -> ok
    | adm: card gpt USD in=3 out=17 -> unchanged
    adm: card gpt USD in=3 out=15 -> ok                        # an old content again is a new version
    adm: card gpt USD in=3 out=18 key=k1 -> IDEMPOTENCY_MISMATCH resource=gpt#1
    """)
    assert sorted(version for _, card_id, version in world.cards if card_id == "gpt" and version) == [1, 2, 3, 4]
    assert world.cards[("t1", "gpt", 0)].version == 4
    assert world.cards[("t1", "gpt", 4)].digest == world.cards[("t1", "gpt", 1)].digest


def test_a_key_of_a_card_gives_the_version_that_it_made() -> None:
    run("""
    adm: budget org USD 10 -> ok
    adm: card gpt USD requests=1/1 -> ok
    | reserve op1 org card=gpt -> ok                           # a card of the same batch
    | reserve op2 org card=gpt/1 -> ok
    quote op1 card_version=1
    """)


def test_names_with_slashes_do_not_share_a_financial_book() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 1 provider=a/b model=c nonce=n1 -> ok send
    reserve op2 org 2 provider=a model=b/c nonce=n2 -> ok send
    charge op1 1 provider=a/b -> ok
    | charge op2 2 provider=a -> ok
    expense a/b c 1
    expense a b/c 2
    """)
