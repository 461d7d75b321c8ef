"""The figures; each module measures one kind of cost and returns rows."""
