"""A threshold is crossed once in each period, by what the books then say."""

import pytest

from tests.domain.table import run

TABLES = {
    "what is used, by default, at 50, 80 and 100 percent": """
        adm: budget org USD 10 -> ok
        reserve op1 org 4.999999999999999999 nonce=n1 -> ok send
        told HOLD,op1,DISPATCHING
        reserve op2 org 0.000000000000000001 -> ok
        told HOLD,op2,RESERVED THRESHOLD,org,50 basis=USED amount=5 authority=10 currency=USD book_id=org#0
        unknown op1 -> ok                                                  # what is unknown is used
        told HOLD,op1,DISPATCHING,OUTCOME_UNKNOWN OBSERVATION,op1,EXECUTION,UNKNOWN
        reserve op3 org 5 nonce=n3 -> ok send
        told HOLD,op3,DISPATCHING THRESHOLD,org,80 THRESHOLD,org,100 amount=10
        charge op3 5 -> ok
        told HOLD,op3,DISPATCHING,SETTLED
    """,
    "what came free and is used again is not told again": """
        adm: budget org USD 10 -> ok
        reserve op1 org 6 -> ok
        told HOLD,op1,RESERVED THRESHOLD,org,50
        release op1 -> ok
        reserve op2 org 6 -> ok
        told HOLD,op2,RESERVED
        reserve op3 org 2 -> ok
        told HOLD,op3,RESERVED THRESHOLD,org,80 amount=8
    """,
    "what is spent, where that is asked for": """
        adm: budget org USD 10 thresholds=60:spent -> ok
        reserve op1 org 9 nonce=n1 -> ok send
        told HOLD,op1,DISPATCHING
        charge op1 6 -> ok
        told HOLD,op1,DISPATCHING,SETTLED THRESHOLD,org,60 basis=SPENT amount=6
    """,
    "every level has its own": """
        adm: budget org USD 100 -> ok
        adm: budget team USD 20 under=org thresholds=25,110 -> ok
        reserve op1 team 5 -> ok
        told HOLD,op1,RESERVED THRESHOLD,team,25
        reserve op2 org 50 -> ok
        told HOLD,op2,RESERVED THRESHOLD,org,50 amount=55
    """,
    "a cost above the budget": """
        adm: budget org USD 10 thresholds=100,150 -> ok
        reserve op1 org 10 nonce=n1 -> ok send
        told HOLD,op1,DISPATCHING THRESHOLD,org,100
        fin: charge op1 15 accept=agreed -> ok
        told HOLD,op1,DISPATCHING,SETTLED THRESHOLD,org,150 amount=15 authority=10
    """,
    "a batch is looked at as it leaves the books": """
        adm: budget org USD 10 thresholds=50 -> ok
        reserve op1 org 4 -> ok
        release op1 -> ok
        | reserve op2 org 4 -> ok
        | reserve op3 org 0.5 -> ok
        told HOLD,op1,RESERVED,RELEASED HOLD,op2,RESERVED HOLD,op3,RESERVED
    """,
    "without a limit there is nothing to be a part of": """
        adm: budget org USD unlimited -> ok
        fin: grant org 5 -> ok
        reserve op1 org 500 -> ok
        told HOLD,op1,RESERVED
        adm: update org limit=1000 -> ok                                     # now there is: 500 of 1005
        told BUDGET,org ENTRY,LIMIT
        reserve op2 org 2.5 -> ok
        told HOLD,op2,RESERVED THRESHOLD,org,50 amount=502.5 authority=1005
    """,
    "of nothing the first use is more than any part, and no use is none": """
        adm: budget org USD 0 thresholds=1000 -> ok
        told BUDGET,org
        reserve op1 org 0 nonce=n1 -> ok send
        told HOLD,op1,DISPATCHING
        fin: charge op1 0.01 accept=agreed -> ok
        told HOLD,op1,DISPATCHING,SETTLED THRESHOLD,org,1000 amount=0.01 authority=0
    """,
    "a grant after the crossing does not take it back": """
        adm: budget org USD 10 thresholds=80 -> ok
        reserve op1 org 8 -> ok
        told HOLD,op1,RESERVED THRESHOLD,org,80
        fin: grant org 10 -> ok
        reserve op2 org 8 -> ok
        told HOLD,op2,RESERVED
    """,
    "a limit that is lowered crosses": """
        adm: budget org USD 10 thresholds=80 -> ok
        reserve op1 org 4 -> ok
        adm: update org limit=5 -> ok
        told BUDGET,org ENTRY,LIMIT THRESHOLD,org,80 amount=4 authority=5
    """,
    "thresholds that are set below what is used are crossed at once, each once for good": """
        adm: budget org USD 10 thresholds=none -> ok
        reserve op1 org 6 -> ok
        adm: update org thresholds=50,80 -> ok
        told BUDGET,org THRESHOLD,org,50
        adm: update org thresholds=none -> ok
        adm: update org thresholds=50,60 -> ok
        told BUDGET,org THRESHOLD,org,60
        adm: update org thresholds=50,60 -> unchanged replayed
    """,
    "each period has its own": """
        adm: budget org USD 10 fixed=60s anchor=2025-03-01T10:00:00+00:00 thresholds=50 -> ok
        reserve op1 org 6 nonce=n1 -> ok send
        told HOLD,op1,DISPATCHING THRESHOLD,org,50 book_id=org#20250301T100000Z
        after 60s
        reserve op2 org 6 -> ok
        told ENTRY,OPEN HOLD,op2,RESERVED THRESHOLD,org,50 book_id=org#20250301T100100Z
        charge op1 6 -> ok
        told HOLD,op1,DISPATCHING,SETTLED
    """,
    "in a period that is over too": """
        adm: budget org USD 10 fixed=60s anchor=2025-03-01T10:00:00+00:00 thresholds=50:spent -> ok
        reserve op1 org 6 nonce=n1 -> ok send
        after 60s
        reserve op2 org 1 -> ok
        charge op1 6 -> ok
        told HOLD,op1,DISPATCHING,SETTLED THRESHOLD,org,50 book_id=org#20250301T100000Z
    """,
    "what is carried on was not used": """
        adm: budget org USD 10 day=UTC rollover=all thresholds=50,100 -> ok
        reserve op1 org 4 nonce=n1 -> ok send
        after 24h
        reserve op2 org 1 -> ok                                              # 6 go on and 4 stay; 4 of 10 are used
        told ENTRY,OPEN ENTRY,ROLLOVER HOLD,op2,RESERVED
        balance org@1 authority=4 carried_on=6 held=4
        fin: charge op1 6 accept=agreed -> ok                                # of 10, and the 2 are taken back
        told HOLD,op1,DISPATCHING,SETTLED THRESHOLD,org,50 amount=6 authority=10
        balance org@1 authority=6 carried_on=4 spent=6
    """,
    "they are a part of what was asked for": """
        adm: budget org USD 10 thresholds=50 key=k -> ok
        adm: budget org USD 10 thresholds=60 key=k -> IDEMPOTENCY_MISMATCH
        adm: budget org USD 10 thresholds=60 -> RESOURCE_EXISTS field=thresholds
        adm: budget org USD 10 thresholds=50 -> unchanged replayed
    """,
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_crossings(table: str) -> None:
    run(table)
