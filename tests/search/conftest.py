from support.asking import serve as serve
