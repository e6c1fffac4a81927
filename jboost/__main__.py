"""`python -m jboost` runs the command line, as `jboost` does."""

from jboost.cli import main

if __name__ == "__main__":
    main()
