"""`python -m progpo` is the command `progpo`."""

from progpo.cli import main

main()
