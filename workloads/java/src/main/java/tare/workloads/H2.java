package tare.workloads;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.SplittableRandom;
import org.h2.jdbcx.JdbcDataSource;

/**
 * H2 keeps the accounts of banks in databases in memory: transfers and reports. The size is the
 * number of banks, each with a database of its own.
 */
final class H2 implements Workload {
    private static final int BANKS = 8;
    private static final int ACCOUNTS = 500;
    private static final int TRANSFERS = 1_000;
    private static final int BRANCHES = 10;
    private static final int REPORT_EVERY = 100;

    private final int banks;
    private final int threads;
    private final long seed;

    H2(Options options) {
        banks = options.sizeOr(BANKS);
        threads = options.threads();
        seed = options.seed();
    }

    @Override
    public long iterate() throws Exception {
        return Parallel.sum(threads, banks, () -> number -> run(Digest.of(seed, number)));
    }

    private static long run(long seed) throws SQLException {
        SplittableRandom random = new SplittableRandom(seed);
        JdbcDataSource source = new JdbcDataSource();
        source.setURL("jdbc:h2:mem:");
        try (Connection bank = source.getConnection()) {
            bank.setAutoCommit(false);
            open(bank, random);
            long digest = 0;
            for (int number = 1; number <= TRANSFERS; number++) {
                transfer(bank, random);
                if (number % REPORT_EVERY == 0) {
                    digest = Digest.of(digest, report(bank));
                }
            }
            return digest;
        }
    }

    private static void open(Connection bank, SplittableRandom random) throws SQLException {
        try (Statement statement = bank.createStatement()) {
            statement.execute("CREATE TABLE account (id INT PRIMARY KEY, branch INT, owner VARCHAR, cents BIGINT)");
            statement.execute("CREATE TABLE movement (id IDENTITY, source INT, target INT, cents BIGINT)");
            statement.execute("CREATE INDEX by_branch ON account (branch)");
        }
        try (PreparedStatement insert = bank.prepareStatement("INSERT INTO account VALUES (?, ?, ?, ?)")) {
            for (int id = 0; id < ACCOUNTS; id++) {
                insert.setInt(1, id);
                insert.setInt(2, random.nextInt(BRANCHES));
                insert.setString(3, "owner " + random.nextInt(ACCOUNTS));
                insert.setLong(4, random.nextInt(1_000_000));
                insert.addBatch();
            }
            insert.executeBatch();
        }
        bank.commit();
    }

    private static void transfer(Connection bank, SplittableRandom random) throws SQLException {
        int source = random.nextInt(ACCOUNTS);
        int target = random.nextInt(ACCOUNTS);
        long cents = random.nextInt(10_000);
        try (PreparedStatement move =
                        bank.prepareStatement("UPDATE account SET cents = cents + ? WHERE id = ?");
                PreparedStatement note =
                        bank.prepareStatement(
                                "INSERT INTO movement (source, target, cents) VALUES (?, ?, ?)")) {
            add(move, source, -cents);
            add(move, target, cents);
            note.setInt(1, source);
            note.setInt(2, target);
            note.setLong(3, cents);
            note.executeUpdate();
        }
        bank.commit();
    }

    private static void add(PreparedStatement move, int id, long cents) throws SQLException {
        move.setLong(1, cents);
        move.setInt(2, id);
        move.executeUpdate();
    }

    private static long report(Connection bank) throws SQLException {
        String query =
                "SELECT a.branch, COUNT(*), SUM(m.cents), MAX(a.owner) FROM movement m"
                        + " JOIN account a ON a.id = m.source WHERE a.cents > 1000"
                        + " GROUP BY a.branch ORDER BY 3 DESC, 1";
        long digest = 0;
        try (Statement statement = bank.createStatement();
                ResultSet rows = statement.executeQuery(query)) {
            while (rows.next()) {
                digest = Digest.of(digest, Digest.of(rows.getInt(1), rows.getLong(3)));
                digest = Digest.of(digest, Digest.of(rows.getString(4)));
            }
        }
        return digest;
    }
}
