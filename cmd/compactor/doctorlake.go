package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/apache/iceberg-go/table"

	"compactor/internal/catalog"
	"compactor/internal/store"
	"compactor/internal/tablename"
)

const (
	partCatalog = "catalog"
	partStore   = "store"
)

// doctorAttempts is how often a request to the store is tried: enough for a
// hiccup, and an answer comes soon.
const doctorAttempts = 2

// catalog opens the catalog, lists, and loads one table.
func (d *checkup) catalog(ctx context.Context) {
	ctx, cancel := d.within(ctx)
	defer cancel()
	s := d.session
	o := s.catalogOptions()
	o.Storage.S3.MaxAttempts = doctorAttempts
	cat, err := catalog.Open(ctx, o)
	if err != nil {
		d.fail(partCatalog, "connection", err, "check catalog.uri, catalog.warehouse and the catalog's own log")

		return
	}
	s.catalog, d.store = cat, cat.Store()
	server, _ := cat.Server()
	text := cat.Type() + " catalog"
	if uri := string(s.cfg.Catalog.URI); uri != "" {
		text += " at " + uri
	}
	if server.Name != "" {
		text += " (" + server.Name + ")"
	}
	d.add(partCatalog, "connection", checkOK, text, "")
	d.plainText(partCatalog, "catalog.uri", string(s.cfg.Catalog.URI))
	d.look(ctx)
	if server, known := cat.Server(); known && server.Clock {
		d.clock(partCatalog, server.Ahead)
	}
}

// look loads the table that the store is looked at with.
func (d *checkup) look(ctx context.Context) {
	ident := d.typed
	if ident == nil {
		var err error
		if ident, err = d.firstTable(ctx); err != nil {
			d.fail(partCatalog, "tables", err, "grant the role of the credentials the right to list namespaces and tables")

			return
		}
		if ident == nil {
			d.add(partCatalog, "tables", checkWarning, "the catalog lists no table", "check catalog.warehouse; a run over --all would be an error")

			return
		}
	}
	tbl, err := d.session.catalog.LoadTable(ctx, ident)
	if err != nil {
		d.fail(partCatalog, "table", err, "compactor inspect "+tablename.String(ident)+" says more")

		return
	}
	d.table = tbl
	d.add(partCatalog, "table", checkOK, fmt.Sprintf("%s loaded, format version %d, at %s", tablename.String(tbl.Identifier()), tbl.Metadata().Version(), tbl.Location()), "")
	if err := d.session.cfg.CheckTable(strings.Join(tbl.Identifier(), "."), tbl.Properties()); err != nil {
		d.fail(partCatalog, "table", &usageError{err}, "correct the properties of the table")
	}
}

// firstTable is the first table that the catalog lists, nil when there is none.
func (d *checkup) firstTable(ctx context.Context) (table.Identifier, error) {
	for ident, err := range d.session.catalog.Walk(ctx, func(table.Identifier) bool { return true }) {
		if err != nil {
			return nil, fmt.Errorf("list tables: %w", err)
		}

		return ident, nil
	}

	return nil, nil
}

// plainText warns about secrets that travel unencrypted to another machine.
func (d *checkup) plainText(part, setting, address string) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" {
		return
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return
	}
	d.add(part, "encryption", checkWarning, setting+" is http: credentials travel unencrypted", "use https, with ca_cert for an authority of your own")
}

// storage reads what a run would read first, and tries the rights when asked.
func (d *checkup) storage(ctx context.Context) {
	ctx, cancel := d.within(ctx)
	defer cancel()
	if d.store == nil && !d.openStore() {
		return
	}
	if s3 := d.session.cfg.Storage.S3; s3 != nil {
		d.plainText(partStore, "storage.s3.endpoint", string(s3.Endpoint))
	}
	place, files := d.place(ctx)
	if place == "" {
		d.add(partStore, "access", checkSkipped, "no table could be loaded and the warehouse is no location, so there is nothing to read", "name a TABLE, or a folder with --probe")

		return
	}
	if d.table != nil {
		d.metadata(files)
	}
	d.listing(ctx, files, place)
	if d.probe != "" {
		d.tryRights(ctx, files)
	}
	if ahead, known := d.store.ClockOffset(); known {
		d.clock(partStore, ahead)
	}
}

// openStore opens the store by the configuration alone, where the catalog could
// not be opened.
func (d *checkup) openStore() bool {
	o := d.session.storeOptions()
	o.S3.MaxAttempts = doctorAttempts
	opened, err := store.New(o)
	if err != nil {
		d.fail(partStore, "settings", &usageError{err}, "correct the section storage")

		return false
	}
	d.store, d.own = opened, opened

	return true
}

// place is a folder to look at, and the files by which it is reached: with the
// credentials of the table where there is one.
func (d *checkup) place(ctx context.Context) (string, *store.FS) {
	if d.table != nil {
		fio, err := d.table.FS(ctx)
		if files, ok := fio.(*store.FS); err == nil && ok {
			return d.table.Location(), files
		}
		d.fail(partStore, "access", errors.Join(err, fmt.Errorf("no files for %s", d.table.Location())), "check the section storage, and the credentials that the catalog vends")
	}
	files := d.store.FS(ctx, d.session.cfg.Catalog.Properties.Reveal())
	for _, candidate := range []string{d.probe, d.session.cfg.Catalog.Warehouse} {
		if strings.Contains(candidate, "://") {
			return candidate, files
		}
	}

	return "", files
}

// metadata reads the table's metadata file, which a run of orphans and expiry does.
func (d *checkup) metadata(files *store.FS) {
	at := d.table.MetadataLocation()
	raw, err := files.ReadFile(at)
	if err != nil {
		d.fail(partStore, "read", err, "allow reading below the table's location (s3:GetObject)")

		return
	}
	text := fmt.Sprintf("%s read, %d bytes", at, len(raw))
	if name := d.store.ServerName(); name != "" {
		text += " (" + name + ")"
	}
	if end := files.CredentialsExpire(); !end.IsZero() {
		text += ", with credentials that the catalog vends until " + end.UTC().Format(time.RFC3339)
	}
	d.add(partStore, "read", checkOK, text, "")
	if files.DeletesDisabled() && !d.session.cfg.Storage.OverrideDeleteDisabled {
		d.add(partStore, "deletes", checkWarning, "the catalog sends s3.delete-enabled=false: expired files are left to it, and orphans are refused",
			"set storage.override_delete_disabled if this program is to delete them")
	}
}

// listing lists the beginning of a folder.
func (d *checkup) listing(ctx context.Context, files *store.FS, folder string) {
	for _, err := range files.List(ctx, folder) {
		if err != nil {
			d.fail(partStore, "list", err, "allow listing the bucket (s3:ListBucket); orphans needs it")

			return
		}

		break
	}
	d.add(partStore, "list", checkOK, folder+" listed", "")
}
