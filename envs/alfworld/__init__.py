"""ALFWorld (arXiv 2010.03768): the six household task families as text games."""
