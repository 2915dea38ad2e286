package store

import (
	"fmt"
	"io/fs"
	"strings"
)

// schemeOf returns the lower-case URI scheme of a location, "" for a bare path.
// A colon without an authority behind it belongs to the file's name, except for
// the form file:/path.
func schemeOf(location string) string {
	scheme, rest, found := strings.Cut(location, ":")
	if !found || scheme == "" || strings.ContainsAny(scheme, `/\`) {
		return ""
	}
	scheme = strings.ToLower(scheme)
	if strings.HasPrefix(rest, "//") || (scheme == schemeFile && strings.HasPrefix(rest, "/")) {
		return scheme
	}
	return ""
}

// s3Location is a bucket and key, with the URI root to spell results with.
type s3Location struct {
	root   string // scheme://bucket
	bucket string
	key    string
}

// parseS3 splits s3://bucket/key. Keys are taken as they are written: Iceberg
// stores locations unescaped, so that "%20" is three characters of the key.
func parseS3(location string) (s3Location, error) {
	i := strings.Index(location, "://")
	if i < 0 {
		return s3Location{}, fmt.Errorf("%w: %q is not of the form s3://bucket/key", fs.ErrInvalid, location)
	}
	bucket, key, _ := strings.Cut(location[i+3:], "/")
	if bucket == "" {
		return s3Location{}, fmt.Errorf("%w: %q names no bucket", fs.ErrInvalid, location)
	}
	return s3Location{root: location[:i+3] + bucket, bucket: bucket, key: key}, nil
}

func parseS3Object(location string) (s3Location, error) {
	loc, err := parseS3(location)
	if err != nil {
		return loc, err
	}
	if loc.key == "" || strings.HasSuffix(loc.key, "/") {
		return loc, fmt.Errorf("%w: %q names no object", fs.ErrInvalid, location)
	}
	return loc, nil
}

// localLocation is a path on this machine, with the prefix to spell results with.
type localLocation struct {
	root string // "file://", "file:" or ""
	path string
}

// parseLocal reads file:///path, file:/path, file://localhost/path and bare
// paths. Nothing is unescaped: an encoded partition value such as "a%2Fb" is
// the name of one folder, as other engines write it, and a listing then returns
// the very string that the manifests hold.
func parseLocal(location string) (localLocation, error) {
	if schemeOf(location) == "" {
		if location == "" {
			return localLocation{}, fmt.Errorf("%w: empty path", fs.ErrInvalid)
		}
		return localLocation{path: location}, nil
	}
	root, path := location[:len("file:")], location[len("file:"):]
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		host, _, _ := strings.Cut(rest, "/")
		if host != "" && !strings.EqualFold(host, "localhost") {
			return localLocation{}, fmt.Errorf("%w: %q is on another host", fs.ErrInvalid, location)
		}
		root, path = location[:len("file://")+len(host)], rest[len(host):]
	}
	if path == "" {
		return localLocation{}, fmt.Errorf("%w: %q has no path", fs.ErrInvalid, location)
	}
	return localLocation{root: root, path: path}, nil
}
