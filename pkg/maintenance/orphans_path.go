package maintenance

import (
	"net/url"
	"path"
	"strings"

	"github.com/zeebo/xxh3"
)

// pathHash identifies one stored object in 16 bytes. Two paths that collide
// would only keep an orphan.
type pathHash = xxh3.Uint128

// place is a location taken apart: the store it is in and the object's key.
// Spellings that every reader treats alike give the same place: the schemes
// s3, s3a and s3n, those of Azure, and the three ways to write a local path.
// Nothing is unescaped: "a%20b" and "a b" are two objects.
type place struct {
	store string // such as s3://bucket; file:// for local paths
	key   string // without a slash in front
}

const localStore = "file://"

// placeOf takes a location apart.
func placeOf(location string) place {
	scheme, rest, found := strings.Cut(location, "://")
	if !found {
		local := strings.TrimPrefix(location, "file:")

		return localPlace(local)
	}
	authority, key, _ := strings.Cut(rest, "/")
	switch scheme = strings.ToLower(scheme); scheme {
	case "s3", "s3a", "s3n":
		scheme = "s3"
	case "file":
		return localPlace("/" + key)
	case "abfs", "abfss", "wasb", "wasbs":
		container, host, _ := strings.Cut(authority, "@")
		account, _, _ := strings.Cut(host, ".")
		scheme, authority = "abfs", container+"@"+account
	}

	return place{store: scheme + "://" + authority, key: key}
}

// localPlace cleans the path as the file system does when it looks it up.
func localPlace(p string) place {
	return place{store: localStore, key: strings.TrimPrefix(path.Clean(p), "/")}
}

// folder is the place of a folder, without slashes at its end.
func folderOf(location string) place {
	p := placeOf(location)
	p.key = strings.TrimRight(p.key, "/")

	return p
}

func (p place) String() string {
	if p.store == localStore {
		return localStore + "/" + p.key
	}

	return p.store + "/" + p.key
}

// below says whether p is in the folder f or under it.
func (p place) below(f place) bool {
	if p.store != f.store {
		return false
	}

	return f.key == "" || strings.HasPrefix(p.key, f.key) && (len(p.key) == len(f.key) || p.key[len(f.key)] == '/')
}

// exact is the identity of the object.
func (p place) exact() pathHash {
	var buf [256]byte
	b := append(buf[:0], p.store...)
	b = append(b, '/')
	b = append(b, p.key...)

	return xxh3.Hash128(b)
}

// loose is the same for all spellings of a key that some client would have
// resolved to one object: escaped or not, with one slash or several, and with
// or without the name of the store.
func loose(key string) uint64 {
	if strings.Contains(key, "%") {
		if plain, err := url.PathUnescape(key); err == nil {
			key = plain
		}
	}
	for strings.Contains(key, "//") {
		key = strings.ReplaceAll(key, "//", "/")
	}

	return xxh3.HashString(strings.Trim(key, "/"))
}

// looseForms are the loose identities a listed object may be referenced by:
// its key, and its key behind the name of its bucket, as addresses of an
// endpoint spell it.
func (p place) looseForms() [2]uint64 {
	_, authority, _ := strings.Cut(p.store, "://")

	return [2]uint64{loose(p.key), loose(authority + "/" + p.key)}
}
