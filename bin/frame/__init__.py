"""How every command runs: its flags, its errors, its help, what the terminal shows."""
