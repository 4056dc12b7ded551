// Copies one topic to another with franz-go's GroupTransactSession: records and the offsets behind them move in
// one transaction. Runs until it is killed.
//
// Arguments: BOOTSTRAP,... GROUP TRANSACTIONAL-ID INPUT OUTPUT
// Out:       committed N    at the end of each transaction: so many records, 0 where it had to be aborted
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const recordsOfATransaction = 20

func main() {
	if err := copyAll(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func copyAll(ctx context.Context, args []string) error {
	bootstrap, group, id, input, output := args[0], args[1], args[2], args[3], args[4]
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ClientID(id),
		kgo.TransactionalID(id),
		// So long offsets stay undecided that one of us was about to move when it was killed; a transaction
		// may be open while the group waits for a session to end.
		kgo.TransactionTimeout(12*time.Second),
		kgo.DefaultProduceTopic(output),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(input),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(500*time.Millisecond),
	)
	if err != nil {
		return err
	}
	for {
		fetches := session.PollRecords(ctx, recordsOfATransaction)
		for _, failure := range fetches.Errors() {
			return fmt.Errorf("%s-%d: %w", failure.Topic, failure.Partition, failure.Err)
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		failed := kgo.AbortingFirstErrPromise(session.Client())
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, kgo.SliceRecord(record.Value), failed.Promise())
		})
		committed, err := session.End(ctx, failed.Err() == nil)
		if err != nil {
			return err
		}
		count := 0
		if committed {
			count = fetches.NumRecords()
		}
		fmt.Println("committed", count)
	}
}
