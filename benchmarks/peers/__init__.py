"""Other ways to the same answers, written as a competent user of the tool would write them."""
