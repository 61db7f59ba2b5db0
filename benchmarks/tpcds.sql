-- Projections, filters, bit vectors and Table 7 of "Data Formats in Analytical DBMSs: Performance Trade-offs and Future Directions"
-- (sections 6.1, 6.2 and 7), on the tables that benchmarks/tpcds.py makes. `draw` is 0 to 99,999: a limit on it is a random bit vector.

-- 1 to 5: Table 7. At some scales no row has what the first asks for; the sixth asks for a pair that comes at scale 7.
SELECT cs_ship_date_sk, cs_bill_customer_sk FROM catalog_sales WHERE cs_sold_time_sk = 12032 AND cs_sold_date_sk = 2452653;
SELECT cd_demo_sk, cd_dep_college_count FROM customer_demographics WHERE cd_gender = 'F' AND cd_education_status = 'Secondary';
SELECT cd_demo_sk FROM customer_demographics WHERE cd_gender = 'M' AND cd_marital_status = 'D' AND cd_education_status = 'College';
SELECT cs_ext_sales_price, cs_sold_date_sk, cs_item_sk FROM catalog_sales WHERE cs_wholesale_cost > 80.0 AND cs_ext_tax < 500.0;
SELECT cs_ext_sales_price, cs_sold_date_sk, cs_item_sk, cs_net_paid_inc_tax, cs_net_paid_inc_ship_tax, cs_net_profit FROM catalog_sales WHERE cs_wholesale_cost > 80;
SELECT cs_ship_date_sk, cs_bill_customer_sk FROM catalog_sales WHERE cs_sold_time_sk = 48739 AND cs_sold_date_sk = 2452653;

-- 7 to 9: a column of integers, of decimals, of strings.
SELECT cs_ship_date_sk FROM catalog_sales;
SELECT cs_wholesale_cost FROM catalog_sales;
SELECT cd_education_status FROM customer_demographics;

-- 10 to 14: conditions that 65 %, 30 %, 30 %, 0.5 % and 14 % of the rows pass.
SELECT count(*) FROM catalog_sales WHERE cs_ship_date_sk > 2451545;
SELECT count(*) FROM catalog_sales WHERE cs_ship_date_sk > 2452218;
SELECT count(*) FROM catalog_sales WHERE cs_wholesale_cost > 70;
SELECT count(*) FROM catalog_sales WHERE cs_wholesale_cost > 99.5;
SELECT count(*) FROM customer_demographics WHERE cd_education_status = 'College';

-- 15 to 21: one row in 100,000, in 10,000, in 1,000, in 100, in 10, every second, every row.
SELECT cs_sold_time_sk FROM catalog_sales WHERE draw < 1;
SELECT cs_sold_time_sk FROM catalog_sales WHERE draw < 10;
SELECT cs_sold_time_sk FROM catalog_sales WHERE draw < 100;
SELECT cs_sold_time_sk FROM catalog_sales WHERE draw < 1000;
SELECT cs_sold_time_sk FROM catalog_sales WHERE draw < 10000;
SELECT cs_sold_time_sk FROM catalog_sales WHERE draw < 50000;
SELECT cs_sold_time_sk FROM catalog_sales WHERE draw < 100000;
