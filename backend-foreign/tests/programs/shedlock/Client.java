// A client of ShedLock's JdbcTemplate provider or of its Redis provider, driven by lines on stdin: see tests/all/clients/program.rs.
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.Scanner;
import java.util.function.UnaryOperator;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

class Client {
    static LockProvider provider;
    /** With what the store said of its name then. */
    record Held(SimpleLock lock, String record) {}

    /** What the store says of a name. */
    static UnaryOperator<String> record;
    static final Map<String, Held> held = new HashMap<>();

    /** Its jobs do not wait: one that is to run asks again. */
    static String acquire(String name, String millis, Duration atLeast) throws Exception {
        while (true) {
            Duration atMost = Duration.ofMillis(Long.parseLong(millis));
            var lock = provider.lock(new LockConfiguration(Instant.now(), name, atMost, atLeast));
            if (lock.isPresent()) {
                held.put(name, new Held(lock.get(), record.apply(name)));
                return "got";
            }
            Thread.sleep(20);
        }
    }

    /** An unlock does not tell whether it has found the lock: the store does. */
    static String release(String name) {
        Held mine = held.remove(name);
        boolean there = mine.record().equals(record.apply(name));
        mine.lock().unlock();
        return there ? "released" : "lost";
    }

    static String count(String name, Path path, int holds) throws Exception {
        for (int done = 0; done < holds; ) {
            acquire(name, "20000", Duration.ZERO);
            String[] words = Files.readString(path).split(" ");
            if (!words[1].equals("theirs")) {
                Thread.sleep(1);
                Files.writeString(path, Integer.parseInt(words[0]) + 1 + " theirs");
                done++;
            }
            if (!release(name).equals("released")) throw new IllegalStateException("lost");
            Thread.sleep(30);
        }
        return "counted";
    }

    static void inRedis(String host, int port) {
        var connections = new LettuceConnectionFactory(host, port);
        connections.afterPropertiesSet();
        connections.start();
        var template = new StringRedisTemplate(connections);
        record = name -> template.opsForValue().get("job-lock:default:" + name);
        provider = new RedisLockProvider.Builder(connections).safeUpdate(true).build();
    }

    static void inDatabase(String url) {
        var template = new JdbcTemplate(new SingleConnectionDataSource(url, true));
        String row = "SELECT concat(locked_by, ' ', lock_until) FROM shedlock WHERE name = ?";
        record = name -> template.queryForObject(row, String.class, name);
        provider = new JdbcTemplateLockProvider(JdbcTemplateLockProvider.Configuration.builder()
            .withJdbcTemplate(template)
            .usingDbTime()
            .build());
    }

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "redis" -> inRedis(args[1], Integer.parseInt(args[2]));
            case "mysql" -> inDatabase("jdbc:mariadb://" + args[1] + ":" + args[2] + "/test?user=root");
            default -> inDatabase("jdbc:postgresql://" + args[1] + ":" + args[2] + "/postgres?user=postgres");
        }
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            System.out.println(switch (words[0]) {
                case "acquire" -> acquire(words[1], words[2], Duration.ZERO);
                // For at least the time that is named last.
                case "least" -> acquire(words[1], words[2], Duration.ofMillis(Long.parseLong(words[3])));
                case "release" -> release(words[1]);
                case "count" -> count(words[1], Path.of(words[2]), Integer.parseInt(words[3]));
                default -> throw new IllegalArgumentException(words[0]);
            });
        }
        System.exit(0);
    }
}
