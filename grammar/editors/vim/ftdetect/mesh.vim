autocmd BufNewFile,BufRead *.mesh setfiletype mesh
