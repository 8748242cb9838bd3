"""Tables of results: filled from run directories and from kept records.

::

    runs, evaluation_table, summary         what a run directory holds, and its figures
    record, records_from_runs, curves       what is kept of a run, and overlaps with training data
    layout, layout_files                    which table has which lines and columns
    lines, kept_tables                      lines of kept records, and the pages of docs/
    publication                             lines of a publication's tables, of run directories
    rendered, texts, html, exports, plots   any lines written: Markdown, HTML, CSV, JSON, plots
    by, cells                               parts that tables share
"""
