from tests.domain.table import run
def test_it():
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 6 -> ok
    balance org available=4 held=6
    dispatch op1 nonce=n1 -> ok send
    charge op1 5 receipt=r1 -> ok
    balance org available=5 spent=5
    hold op1 SETTLED settled=5
    adm: card gpt USD in=3 out=15 max_in=1000 max_out=1000 -> ok
    reserve op2 org card=gpt in=1000 out=100 nonce=n2 -> ok send
    quote op2 amount=0.0045 in=1000@3 out=100@15
    usage op2 in=10 out=10 -> ok
    """)
