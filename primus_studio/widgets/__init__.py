"""Parts that draw results and take input. They know values and the theme, no document and no engine."""
