"""Where teams set up an arena: its settings, its prompts, its candidates and their answers."""
