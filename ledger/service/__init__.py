"""The gRPC server: translate, call, translate.

Read `server`, then `holds` (the servicer), `translate` (the contract's messages to the rules' words and back), `access` (who may
call what) and `errors` (how a refusal is told).
"""
