"""`engramq connect` and `engramq rules`, on files as the clients document them."""
