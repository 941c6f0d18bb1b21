"""What `import paceline` offers as functions: the same that the command line calls.

`asking` says what may be asked for, `running` carries it out, `stored` reads runs that are kept,
`written` makes reports of them.
"""
