"""The script that Python starts with: the rest is in a module, which may have been compiled before."""

import guest

guest.begin()
