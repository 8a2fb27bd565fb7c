// Package zkkerberos authenticates sessions to ZooKeeper with Kerberos: it is the mechanism GSSAPI
// for [session.Options].
//
//	sasl, err := zkkerberos.FromKeytab("/etc/app.keytab", "app@EXAMPLE.COM", nil)
//	…
//	s, err := session.Open(ctx, addresses, &session.Options{SASL: sasl, ACL: session.CreatorAll()})
//
// [FromKeytab] is for services. [FromCache] uses the tickets of kinit, for people and for machines
// on which another program keeps a ticket. The list of servers must name them as their principals
// do: a client of zk1.example.com:2181 asks for a ticket for zookeeper/zk1.example.com. If the
// servers share one principal, Options.Service returns it. In ACLs the client is the id
// name@REALM of the scheme sasl, unless the servers map names (kerberos.removeRealmFromPrincipal,
// zookeeper.security.auth_to_local).
//
// # Tickets
//
// A ticket for a server is used for all connections to it. A new one is fetched, by itself, shortly
// before it expires, and after a connection on which the server did not accept it. So the client
// needs no restart when a server, the KDC or the client itself has new keys. Until the connection
// after a refused one, requests fail with [session.ErrAuthFailed], and the session goes on.
//
// A session whose connection stands needs no ticket: servers do not end connections whose ticket
// has expired. If no ticket can be fetched when the session reconnects, the session tries again
// until it expires.
//
// Errors about tickets wrap [ErrNoTicket]. Those that trying again does not mend wrap
// [session.ErrAuthFailed], too: the KDC refuses, the keytab or the cache has nothing that is valid.
// While the KDC cannot be reached, requests wait, as they do while servers cannot. Errors and
// everything that is printed contain no keys and no tickets.
//
// # What it does and does not do
//
// Client and server authenticate each other. There is no security layer: Kerberos proves who
// speaks, but does not protect what follows. Use TLS as well. ZooKeeper's servers offer no security
// layer either (javax.security.sasl.qop=auth). Keys must be AES: rc4-hmac is refused. The servers
// are in the client's realm, or its KDC refers to theirs.
//
// Kerberos itself is gokrb5 (github.com/jcmturner/gokrb5/v8), which is pure Go and widely used. Its
// last release is of 2023. It has a maintained successor, github.com/go-krb5/krb5, with packages of
// the same names, but the module proxy offered no version of that when this was written. To move
// there, change ticket.go and exchange.go; Options.Settings is the only exported trace of gokrb5.
//
// gokrb5 panics over damaged files and messages. Such a panic becomes an error here. A request to a
// KDC does not end with a context: it may outlive its caller by the time limits of gokrb5, 5 s for
// each KDC and protocol, and its ticket is for the next connection. Lines with include in krb5.conf
// are ignored.
package zkkerberos
