"""The report as people look at it: what an experiment's files tell, as figures, a page, and a folder to publish."""
