"""`python -m services.kvstore`."""

from services.kvstore.app import main

main()
