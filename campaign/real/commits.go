package real

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/txnlog"
)

// A chronicle is what the servers' trees had, from their transaction logs.
type chronicle struct {
	dir     string // of the ensemble
	servers int
	start   time.Time // of the history, by the clock on the wall
	tree    txnlog.Tree
	last    int64 // the newest zxid that is in commits, or in the backup that was restored
	commits []history.Commit
}

func (c *chronicle) data(server int) string {
	return filepath.Join(c.dir, "server-"+strconv.Itoa(server), "data")
}

// read adds what was committed since the last time. The servers have elected a leader since the
// last proposal that one of them did not see, or are down.
func (c *chronicle) read() error {
	var logs [][]txnlog.Transaction
	for i := range c.servers {
		log, err := txnlog.Read(c.data(i))
		if err != nil {
			return err
		}
		logs = append(logs, log)
	}
	for _, tx := range txnlog.Committed(logs...) {
		if tx.Zxid > c.last {
			c.commits = append(c.commits, c.tree.Commit(tx, c.start))
			c.last = tx.Zxid
		}
	}
	return nil
}

// restore replaces the data of all servers, which are down, by those of a backup.
func (c *chronicle) restore(backup string, at history.Moment) error {
	if err := c.read(); err != nil {
		return err
	}
	for i := range c.servers {
		target := filepath.Join(c.data(i), "version-2")
		if err := os.RemoveAll(target); err != nil {
			return err
		}
		if err := os.CopyFS(target, os.DirFS(filepath.Join(backup, "version-2"))); err != nil {
			return err
		}
	}
	log, err := txnlog.Read(backup)
	if err != nil {
		return fmt.Errorf("the backup: %w", err)
	}
	c.tree, c.last = txnlog.Tree{}, 0
	for _, tx := range log {
		c.tree.Commit(tx, c.start)
		c.last = tx.Zxid
	}
	c.commits = append(c.commits, history.Commit{Zxid: c.last, At: at, Restored: true, Changes: c.tree.Nodes()})
	return nil
}
