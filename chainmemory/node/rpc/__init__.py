"""The node's JSON-RPC: one file per namespace, `dispatch.answer` in front of them."""
