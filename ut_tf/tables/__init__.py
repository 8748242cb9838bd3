"""Tables of results: filled from run directories and from kept records.

::

    runs, evaluation_table, summary         what a run directory holds, and its figures
    record, records_from_runs, curves       what is kept of a run, and overlaps with training data
    layout, layout_files                    which table has which lines and columns
    kept_tables, kept_lines, kept_text      tables of kept records, on pages of docs/
    paper_report, report_text               a publication's tables, filled from runs
    by, cells, texts, html, plots           parts that tables share
"""
