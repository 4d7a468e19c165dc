"""What Python is started with: the rest is in a module, which may be there compiled."""

import guest

guest.begin()
