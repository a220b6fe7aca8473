setlocal comments=:// commentstring=//\ %s expandtab shiftwidth=2 softtabstop=2
