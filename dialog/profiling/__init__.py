"""How fast a recipe trains and answers here, and how near that is to what the machine could do."""
