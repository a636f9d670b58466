// The Go client, in a module of its own and without requirements, so that others take it
// without the server. The name is to become one that can be fetched: it stands here, in
// go.mod, and in the imports of those who use it, and nowhere in this package.
module holdpoint.example/client

go 1.24
