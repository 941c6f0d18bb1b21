"""Reports: runs that are kept become tables, figures and a page; nothing here needs torch.

`sides` groups runs, `conclusion` says in words what they show, `tables` and `figures` make exhibits
of them, `runs_page` puts these in order. `writing` writes any page, a study's too.
"""

from paceline.reporting.runs_page import page_of
from paceline.reporting.writing import write

__all__ = ["page_of", "write"]
